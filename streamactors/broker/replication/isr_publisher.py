"""Asks the active controller for changes of the ISR: many partitions in one request, one request at a time.

Owner: the data plane. The proposals and what their answers mean are in `leader_state`. Rules: Apache Kafka's AlterPartitionManager
(KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.leader_state import UNKNOWN, Proposal

if TYPE_CHECKING:
    from streamactors.broker.replication.hosted_partition import HostedPartition
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.replication")

ALTER_PARTITION: Final = (56, 3)
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


class AnswerLike(Protocol):
    """An answer of the controller, or the error in its place: `network.outgoing.channel.ChannelAnswer`."""

    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> Exception | None: ...


class Controllers(Protocol):
    """The way to the active controller: `membership.Member`."""

    @property
    def broker_epoch(self) -> int: ...

    @property
    def lease_end_ms(self) -> float: ...

    def ask(self, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[AnswerLike], object]) -> None: ...


class IsrPublisher:
    """The proposals that are not settled."""

    def __init__(self, node: Runtime, controllers: Controllers) -> None:
        self._node = node
        self._controllers = controllers
        self._waiting: dict[HostedPartition, Proposal] = {}
        self._sent: dict[HostedPartition, Proposal] = {}
        self._scheduled = False
        self._stopped = False

    def propose(self, partition: HostedPartition, proposal: Proposal) -> None:
        """Send a proposal, and count it from now on."""
        leading = partition.leader_state
        assert leading is not None
        leading.propose(proposal)
        _log.info("%s: in sync are %s, and shall be %s", partition, leading.isr, proposal.isr)
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
        self._sent = {partition: each for partition, each in waiting.items() if _stands(partition, each)}
        if not self._sent or self._stopped:
            return
        topics: dict[Any, list[dict[str, Any]]] = {}
        for partition, proposal in self._sent.items():
            topics.setdefault(partition.topic_id, []).append(self._body_of(partition, proposal))
        body = {
            "broker_id": self._node.node_id,
            "broker_epoch": self._controllers.broker_epoch,
            "topics": [{"topic_id": topic_id, "partitions": each} for topic_id, each in topics.items()],
        }
        self._controllers.ask(ALTER_PARTITION, body, self._answered)

    def _body_of(self, partition: HostedPartition, proposal: Proposal) -> dict[str, Any]:
        brokers = self._node.metadata.image.brokers
        epochs = []
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member == self._node.node_id:
                epoch = self._controllers.broker_epoch
            elif epoch == UNKNOWN:
                epoch = brokers[member].broker_epoch if member in brokers else UNKNOWN
            epochs.append({"broker_id": member, "broker_epoch": epoch})
        return {
            "partition_index": partition.index,
            "leader_epoch": proposal.leader_epoch,
            "new_isr": list(proposal.isr),  # for controllers before 3.5
            "new_isr_with_epochs": epochs,
            "leader_recovery_state": 0,
            "partition_epoch": proposal.partition_epoch,
        }

    def _answered(self, answer: AnswerLike) -> None:
        sent, self._sent = self._sent, {}
        error = ErrorCode.NOT_CONTROLLER if answer.error is not None else ErrorCode(answer.value.error_code)
        outcomes = {}
        if not error:
            outcomes = {
                (topic.topic_id, each.partition_index): each
                for topic in answer.value.topics
                for each in topic.partitions
            }
        again = False
        for partition, proposal in sent.items():
            outcome = outcomes.get((partition.topic_id, partition.index))
            code = error or (ErrorCode(outcome.error_code) if outcome is not None else ErrorCode.NOT_CONTROLLER)
            if code and code not in _SETTLED:
                again = True
                self._waiting.setdefault(partition, proposal)
            else:
                _settle(partition, proposal, code, outcome)
        if self._waiting:
            self._send_soon(RETRY_MS if again else 0.0)


def _stands(partition: HostedPartition, proposal: Proposal) -> bool:
    """Whether the leader still wants this change."""
    leading = partition.leader_state
    return leading is not None and leading.proposed == proposal and leading.in_flight


def _settle(partition: HostedPartition, proposal: Proposal, code: ErrorCode, outcome: Any) -> None:
    leading = partition.leader_state
    if leading is None or leading.epoch != proposal.leader_epoch:
        return
    if code:
        _log.info("%s: the controller refuses %s in sync: %s", partition, proposal.isr, code.name)
        leading.refused(proposal, certain=code in _CERTAINLY_NOT)
    elif outcome.partition_epoch == leading.partition_epoch:
        leading.refused(proposal, certain=True)  # nothing was to be changed
    elif outcome.leader_epoch == leading.epoch:
        leading.learn(leading.replicas, tuple(outcome.isr), outcome.partition_epoch)
    partition.update_high_watermark()
    partition.changed()
