"""What a node has of its cluster: the controller of its process, its membership and its replication. They are complete when they are made.

Owner: the server. Every node is a member of a quorum, of one too. A quorum of one, with or without other brokers, is `quorum_of_one.py`. A node whose
controllers are other processes, or several with this one, has `quorum_of_several.py`, which only such a node loads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.node import Node
from streamactors.broker.server.quorum_of_one import QuorumOfOne


class ClusterPart(Protocol):
    """The part of one node in its cluster, in the order in which the server calls it. Every method blocks."""

    def start(self) -> None:
        """Take part in the quorum, and follow its metadata. Raises BrokerError."""

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners. Raises BrokerError if the cluster refuses it."""

    def ready(self) -> None:
        """Let clients be sent to this broker. Raises BrokerError."""

    def leave(self, within_s: float) -> None:
        """Leave the cluster cleanly, while clients are still served."""

    def stop(self) -> None:
        """Leave the quorum, and end its threads and connections."""

    def stop_copying(self) -> None:
        """End the fetchers."""


def cluster_part(node: Node, *, listens: bool) -> ClusterPart:
    """Make the part of a node, and set the fields of the node that belong to it. `listens`: it has a listener for controllers."""
    if not node.config.is_one_of_several:
        return QuorumOfOne(node, listens=listens)
    from streamactors.broker.server.quorum_of_several import QuorumOfSeveral  # a broker on its own does not load it

    return QuorumOfSeveral(node)
