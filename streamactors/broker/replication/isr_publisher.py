"""Asks the active controller for changes of the ISR: many partitions in one request, one request at a time.

Owner: the data plane. The proposals and what their answers mean are in `leader_state`. Rules: Apache Kafka's AlterPartitionManager
(KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, IsrProposal, PartitionsAltered
from streamactors.broker.replication.leader_state import UNKNOWN, Proposal

if TYPE_CHECKING:
    from streamactors.broker.replication.hosted_partition import HostedPartition
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.replication")

RETRY_MS: Final = 50.0
_CERTAINLY_NOT: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Errors after which the proposal surely was never carried out: the checks for earlier attempts come before them."""
_SETTLED: Final = _CERTAINLY_NOT | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
}
"""Errors after which newer metadata comes. After any other one, such as that of a controller whose disk fails, the proposal is sent again."""


class Membership(Protocol):
    """This broker's part in its cluster: `membership.Lifecycle`, or `controller.OwnBroker` where its own controller is the only one."""

    @property
    def broker_epoch(self) -> int: ...

    @property
    def lease_end_ms(self) -> float: ...


class ActiveController(Protocol):
    """The way to the active controller. It replies on the data plane's thread."""

    def submit(self, command: Any, reply: Callable[[Any], object]) -> object: ...


class IsrPublisher:
    """The proposals that are not settled."""

    def __init__(self, node: Runtime, membership: Membership, controller: ActiveController) -> None:
        self._node = node
        self._membership = membership
        self._controller = controller
        self._waiting: dict[HostedPartition, Proposal] = {}
        self._sent: dict[HostedPartition, Proposal] = {}
        self._scheduled = False
        self._stopped = False

    def propose(self, partition: HostedPartition, proposal: Proposal) -> None:
        """Send a proposal, and count it from now on."""
        leading = partition.leader_state
        assert leading is not None
        leading.propose(proposal)
        _log.info("%s: in sync are %s, proposed are %s", partition, leading.isr, proposal.isr)
        self._waiting[partition] = proposal
        self._send_soon(0.0)

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True

    def _send_soon(self, delay_ms: float) -> None:
        if not self._scheduled and not self._sent and not self._stopped:
            self._scheduled = True
            self._node.data_plane.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._scheduled = False
        waiting, self._waiting = self._waiting, {}
        self._sent = {partition: each for partition, each in waiting.items() if _is_wanted(partition, each)}
        if not self._sent or self._stopped:
            return
        proposals = tuple(self._request_of(partition, each) for partition, each in self._sent.items())
        command = AlterPartition(self._node.node_id, self._membership.broker_epoch, proposals)
        self._controller.submit(command, self._answered)

    def _request_of(self, partition: HostedPartition, proposal: Proposal) -> IsrProposal:
        brokers = self._node.metadata.image.brokers
        isr = []
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member == self._node.node_id:
                epoch = self._membership.broker_epoch
            elif epoch == UNKNOWN:
                epoch = brokers[member].broker_epoch if member in brokers else UNKNOWN
            isr.append((member, epoch))
        return IsrProposal(
            partition.topic_id, partition.index, proposal.leader_epoch, proposal.partition_epoch, tuple(isr)
        )

    def _answered(self, altered: PartitionsAltered) -> None:
        sent, self._sent = self._sent, {}
        outcomes = altered.outcomes if not altered.error else tuple(IsrOutcome(altered.error) for _ in sent)
        again = False
        for (partition, proposal), outcome in zip(sent.items(), outcomes, strict=True):
            if outcome.error and outcome.error not in _SETTLED:
                again = True
                self._waiting.setdefault(partition, proposal)
            else:
                _settle(partition, proposal, outcome)
        if self._waiting:
            self._send_soon(RETRY_MS if again else 0.0)


def _is_wanted(partition: HostedPartition, proposal: Proposal) -> bool:
    """Whether the leader still wants this change."""
    leading = partition.leader_state
    return leading is not None and leading.proposed == proposal and leading.in_flight


def _settle(partition: HostedPartition, proposal: Proposal, outcome: IsrOutcome) -> None:
    leading = partition.leader_state
    if leading is None or leading.epoch != proposal.leader_epoch:
        return
    if outcome.error:
        _log.info("%s: the controller refuses %s in sync: %s", partition, proposal.isr, outcome.error.name)
        leading.refused(proposal, certain=outcome.error in _CERTAINLY_NOT)
    elif outcome.partition_epoch == leading.partition_epoch:
        leading.refused(proposal, certain=True)  # nothing was to be changed
    elif outcome.leader_epoch == leading.epoch:
        leading.learn(leading.replicas, outcome.isr, outcome.partition_epoch)
    partition.update_high_watermark()
    partition.changed()
