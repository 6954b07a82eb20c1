"""A Kafka-compatible broker made of actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.broker.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    # on first use: whoever wants one part of the broker does not wait for the whole
    if name == "Cluster":
        from streamactors.broker.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
