"""A node whose quorum has other nodes: it is one of several controllers, or reads what they decide, and it may be a broker or not.

Owner: the server. Imported only by such a node. A controller has its own replica of the log; any other node follows the log as a `Member`. The broker asks the
active controller through `ControllerChannels`: as objects if that is the one of this process, over the network if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.controller import Controller, Peers
from streamactors.broker.helpers import call_on
from streamactors.broker.membership.controller_channels import ControllerChannels, NoController
from streamactors.broker.membership.controller_registration import ControllerRegistration
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.membership.lifecycle_state import Times
from streamactors.broker.membership.member import Member
from streamactors.broker.membership.member_commands import MemberCommands
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.node import Node
from streamactors.broker.replication.replicas import Replicas
from streamactors.broker.requests.forwarding import Forwarding
from streamactors.broker.server.metadata_publisher import MetadataPublisher

_NOBODY: Final = -1
LEAVE_WITHIN_S: Final = 60.0


class Log(Protocol):
    """This node's replica of the metadata log: a `Controller`, or a `Member`."""

    @property
    def broken(self) -> bool: ...

    def start(self) -> None: ...

    def await_metadata(self, within_s: float) -> None: ...

    def stop(self) -> None: ...


class QuorumOfSeveral:
    """The replica of the log, the membership and the replication of such a node."""

    def __init__(self, node: Node) -> None:
        config, times = node.config, times_of(node.config)
        self._node = node
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-member", node.clock)
        publisher = MetadataPublisher(node, node.partitions)
        self._log: Log
        if config.is_member:
            node.controller = NoController()
        else:
            peers = Peers(brokers=True, voters=True, on_leader=self._leader_changed)
            node.controller = self._log = Controller(node, publisher, peers)
        timeout_ms = max(times.session_ms / 2, 500.0)
        self._channels = ControllerChannels(node, self._dispatcher, node.controller, heartbeat_timeout_ms=timeout_ms)
        self._life = Lifecycle(
            node,
            self._dispatcher,
            self._channels,
            config.controllers,
            times=times,
            previous_epoch=node.logs.previous_epoch,
        )
        self._follow: list[Callable[[MetadataImage], object]] = [self._life.applied]
        if config.is_member:
            self._log = Member(node, publisher, self._dispatcher, self._channels, self._life, config.controllers)
        else:
            self._follow.append(ControllerRegistration(node, self._dispatcher, self._channels).look)
        node.active_controller = MemberCommands(node, self._life, self._channels)
        node.forwarding = Forwarding(node, self._channels)
        self._replicas = node.replication = Replicas(node, node.partitions, self._life, node.active_controller)
        call_on(node.data_plane, self._replicas.start)
        node.metadata.subscribe(self._applied)

    def start(self) -> None:
        """Take part in the quorum; a broker waits until it follows the metadata of a leader. Raises BrokerError."""
        self._log.start()
        if self._node.config.is_broker:
            self._log.await_metadata(self._life.times.registration_timeout_ms / 1000)

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners. Raises BrokerError."""
        self._life.register(endpoints)

    def ready(self) -> None:
        """Let clients be sent to this broker. Raises BrokerError."""
        self._life.ready()

    def stop_copying(self) -> None:
        """End the fetchers."""
        call_on(self._node.data_plane, self._replicas.stop)

    def leave(self, within_s: float) -> None:
        """Leave the cluster cleanly, while clients are still served. Without a leader of the quorum a voter asks no one and leaves at once, and so does
        one that knows of no leader any more."""
        node, config = self._node, self._node.config
        if config.controlled_shutdown_enable and not self._log.broken:
            patience_ms = 0.0
            if not config.is_member:
                patience_ms = 2 * (
                    config.controller_quorum_fetch_timeout_ms + config.controller_quorum_election_timeout_ms
                )
            node.logs.broker_epoch = self._life.leave(within_s, patience_ms / 1000, lambda: node.leader_id != _NOBODY)

    def stop(self) -> None:
        """End the membership, give up a leadership of the quorum, and leave the quorum."""
        if self._dispatcher.running:
            call_on(self._dispatcher, self._channels.close)
            call_on(self._dispatcher, self._life.close)
        self._log.stop()
        self._dispatcher.stop()

    # --- on the controller's thread ---

    def _leader_changed(self, leader: int | None, epoch: int, address: Address | None) -> None:
        node = self._node
        leader_id = _NOBODY if leader is None else leader

        def know() -> None:
            node.leader_id = leader_id

        try:
            node.data_plane.execute(know)
            self._dispatcher.execute(partial(self._channels.leader_changed, leader_id, epoch, address))
        except DispatcherStopped:
            pass  # this node is stopping

    # --- on the data plane's thread ---

    def _applied(self, delta: ImageDelta) -> None:
        try:
            for follow in self._follow:
                self._dispatcher.execute(partial(follow, delta.image))
        except DispatcherStopped:
            pass  # this node is stopping


def times_of(config: BrokerConfig) -> Times:
    """Return the intervals of the life of a broker with these settings."""
    return Times(
        heartbeat_ms=config.broker_heartbeat_interval_ms,
        session_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        leaving_timeout_ms=LEAVE_WITHIN_S * 1000,
    )
