"""A Kafka-compatible broker made of actors.

`network/` has the sockets and frames, `requests/` passes a frame to its handler in `apis/` or `controller_apis/`. Handlers use the parts of a `Node`
(`node.py`): partitions (`replication/`, on `log/`), groups and transactions (`group/`, `transaction/`, on `coordinator/`), metadata (`metadata/`,
written by `controller/` on `quorum/`). `server/` makes a node of its parts, `launch/` starts it, `cluster/` is what tests and demos call."""

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
