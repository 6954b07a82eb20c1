"""Makes the parts of a broker whose controllers are other processes, and ties them together.

Owner: the server. Imported only by such a broker."""

from __future__ import annotations

from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.helpers import call_on
from streamactors.broker.membership.lifecycle_state import Times
from streamactors.broker.membership.member import Member
from streamactors.broker.membership.remote_controller import MemberController
from streamactors.broker.node import Node
from streamactors.broker.replication.replicas import Replicas
from streamactors.broker.requests.forwarding import Forwarding
from streamactors.broker.server.metadata_publisher import MetadataPublisher

LEAVE_WITHIN_S: Final = 60.0


class Joined:
    """A broker's membership and replication."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._node = node
        self.member = Member(
            node,
            MetadataPublisher(node, node.partitions),
            config.controllers,
            times=times_of(config),
            previous_epoch=node.logs.previous_epoch,
        )
        self._replicas = Replicas(node, node.partitions, self.member.life)
        node.replication = self._replicas
        node.forwarding = Forwarding(node, self.member.life)
        node.controller = MemberController(node, self.member)
        call_on(node.data_plane, self._replicas.start)

    def ready(self) -> None:
        """Let clients be sent to this broker. Blocks."""
        self.member.life.ready()

    def stop_copying(self) -> None:
        """End the fetchers."""
        call_on(self._node.data_plane, self._replicas.stop)

    def leave(self, within_s: float = LEAVE_WITHIN_S) -> None:
        """Leave the cluster in order, while clients are still served."""
        if self._node.config.controlled_shutdown_enable:
            self._node.logs.broker_epoch = self.member.life.leave(within_s)


def times_of(config: BrokerConfig) -> Times:
    """Return the intervals of the life of a broker with these settings."""
    return Times(
        heartbeat_ms=config.broker_heartbeat_interval_ms,
        session_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        leaving_timeout_ms=LEAVE_WITHIN_S * 1000,
    )
