"""A Kafka-compatible broker made of actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.broker.cluster.acl import Acl
    from streamactors.broker.cluster.cluster import Cluster

__all__ = ["Acl", "Cluster"]


def __getattr__(name: str) -> Any:
    # on first use: an import of one part of the broker must not load the rest
    if name == "Cluster":
        from streamactors.broker.cluster.cluster import Cluster

        return Cluster
    if name == "Acl":
        from streamactors.broker.cluster.acl import Acl

        return Acl
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
