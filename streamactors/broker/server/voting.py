"""Makes the parts of a node that is one of several controllers, and ties them together. The node may be a broker too.

Owner: the server. Imported only by such a node. The broker part asks the active controller over its listener, also when that is this
node; it takes the metadata from this node's own replica of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.controller import Controller
from streamactors.broker.helpers import call_on
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.membership.remote_controller import RemoteController
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.node import Node
from streamactors.broker.replication.replicas import Replicas
from streamactors.broker.requests.forwarding import Forwarding
from streamactors.broker.server.joining import LEAVE_WITHIN_S, times_of
from streamactors.broker.server.metadata_publisher import MetadataPublisher

_log = logging.getLogger("streamactors.broker.controller")

_NOBODY: Final = -1


class Voting:
    """The controller of such a node, and its broker's membership and replication if it is a broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-member", node.clock)
        publisher = MetadataPublisher(node, node.partitions)
        self.controller = Controller(node, publisher, leads_others=True, on_leader=self._leader_changed)
        node.is_active = lambda: self.controller.active
        node.controller = self.controller
        self.life: Lifecycle | None = None
        self._replicas: Replicas | None = None
        if not node.config.is_broker:
            return
        self.life = life = Lifecycle(
            node,
            self._dispatcher,
            node.config.controllers,
            times=times_of(node.config),
            previous_epoch=node.logs.previous_epoch,
        )
        node.controller = BothControllers(node, self, life)
        node.forwarding = Forwarding(node, life)
        self._replicas = node.replication = Replicas(node, node.partitions, life)
        call_on(node.data_plane, self._replicas.start)
        node.metadata.subscribe(self._applied)

    def start(self) -> None:
        """Take part in the quorum; a broker waits until it follows the metadata of a leader. Blocks. Raises BrokerStartError."""
        self.controller.start()
        if self.life is not None:
            self.controller.await_leader(self.life.times.registration_timeout_ms / 1000)

    def ready(self) -> None:
        """Let clients be sent to this broker. Blocks."""
        if self.life is not None:
            self.life.ready()

    def stop_copying(self) -> None:
        """End the fetchers."""
        if self._replicas is not None:
            call_on(self._node.data_plane, self._replicas.stop)

    def leave(self, within_s: float = LEAVE_WITHIN_S) -> None:
        """Leave the cluster in order, while clients are still served. Without a leader of the quorum the broker asks no one and leaves at once,
        and so does one that knows of no leader any more."""
        node = self._node
        if self.life is not None and node.config.controlled_shutdown_enable and not self.controller.broken:
            config = node.config
            patience_ms = 2 * (config.controller_quorum_fetch_timeout_ms + config.controller_quorum_election_timeout_ms)
            node.logs.broker_epoch = self.life.leave(within_s, patience_ms / 1000, lambda: node.leader_id != _NOBODY)

    def stop(self) -> None:
        """End the membership, give up a leadership of the quorum, and leave the quorum."""
        if self._dispatcher.running and self.life is not None:
            call_on(self._dispatcher, self.life.close)
        self._dispatcher.stop()
        self.controller.stop()

    # --- on the controller's thread ---

    def _leader_changed(self, leader: int | None, epoch: int) -> None:
        node = self._node
        leader_id = _NOBODY if leader is None else leader
        address = self.controller.address_of(leader)

        def know() -> None:
            node.leader_id = leader_id

        try:
            node.data_plane.execute(know)
            if self.life is not None:
                self._dispatcher.execute(partial(self.life.leader_changed, leader_id, epoch, address))
        except DispatcherStopped:
            pass  # this node is stopping

    # --- on the data plane's thread ---

    def _applied(self, delta: ImageDelta) -> None:
        assert self.life is not None
        try:
            self._dispatcher.execute(partial(self.life.applied, delta.image))
        except DispatcherStopped:
            pass  # this node is stopping


class BothControllers(RemoteController):
    """What the broker itself wants goes to the active controller. What other nodes ask this node's controller goes to it."""

    def __init__(self, node: Node, voting: Voting, life: Lifecycle) -> None:
        super().__init__(node, life)
        self._voting = voting

    def start(self) -> None:
        """Take part in the quorum. Blocks."""
        self._voting.start()

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners. Blocks."""
        assert self._voting.life is not None
        self._voting.life.register(endpoints)

    def stop(self) -> None:
        """End both."""
        self._voting.stop()

    def submit_other(self, command: Any, reply: Callable[[Any], object]) -> None:
        """Have this node's controller carry out a command of another node."""
        self._voting.controller.submit(command, reply)
