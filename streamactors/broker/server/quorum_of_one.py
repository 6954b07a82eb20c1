"""A node that is the only voter of its quorum: its broker asks the controller of its own process, and so do the other brokers, if it listens for them.

Owner: the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamactors.broker.controller.cluster_command import FoldersCordoned
from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.controller import Controller, Peers
from streamactors.broker.controller.own_broker import OwnBroker
from streamactors.broker.helpers import call_on
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.node import Node, NothingForwarded
from streamactors.broker.replication.no_replicas import NoReplicas
from streamactors.broker.server.metadata_publisher import MetadataPublisher


class QuorumOfOne:
    """The controller of such a node, and the replication with the brokers that join it. `listens`: brokers may join."""

    def __init__(self, node: Node, *, listens: bool) -> None:
        self._node = node
        self._listens = listens
        publisher = MetadataPublisher(node, node.partitions, self._tell_cordoned)
        self._controller = Controller(node, publisher, Peers(brokers=listens))
        self._own = OwnBroker(node, self._controller, leads_others=listens)
        node.controller = node.active_controller = self._controller
        node.forwarding = NothingForwarded()
        node.replication = NoReplicas(self._own)
        self.stop_copying = _replicate(node, self._own) if listens else lambda: None

    def _tell_cordoned(self, command: FoldersCordoned, reply: Callable[[Outcome], object]) -> None:
        """Tell the controller, because this broker sends it no heartbeats."""
        self._controller.submit(command, reply)

    def start(self) -> None:
        """Read the metadata log, and lead its quorum. Raises BrokerStartError."""
        self._controller.start()

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners, and elect it as a leader where possible."""
        self._own.register(endpoints)

    def ready(self) -> None:
        """Do nothing: this broker was unfenced by its registration."""

    def leave(self, within_s: float) -> None:
        """Move the leaderships of this broker to other ones, if there are any."""
        if self._listens and not self._controller.broken:  # else it can write nothing any more
            self._own.leave(within_s)

    def stop(self) -> None:
        """End the controller."""
        self._controller.stop()


def _replicate(node: Node, own: OwnBroker) -> Callable[[], None]:
    """Start the replication with other brokers. Return what stops it."""
    from streamactors.broker.replication.replicas import Replicas  # a broker on its own does not load it

    node.replication = replicas = Replicas(node, node.partitions, own, node.active_controller)
    call_on(node.data_plane, replicas.start)
    return lambda: call_on(node.data_plane, replicas.stop)
