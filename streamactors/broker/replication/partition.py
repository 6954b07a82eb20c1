"""A hosted partition: its log, who leads it, and how far it is replicated.

Owner: the data plane. The high watermark is the log's own limit while this broker is the only replica: what is flushed
where a flush is demanded, else the end. Source: Kafka's cluster.Partition."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamactors.broker.errors import BrokerError, ErrorCode, StorageError
from streamactors.broker.log.log_append import AppendResult
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.records.validation import AppendOrigin

if TYPE_CHECKING:
    from streamactors.broker.node import Node


class NotLeader(BrokerError):
    """Another broker leads the partition."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class NotEnoughReplicas(BrokerError):
    """Fewer replicas are in sync than min.insync.replicas asks for."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the metadata says about a partition. Leader -1: none."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    min_insync_replicas: int = 1


class Partition:
    """One partition on this broker. It is its own key in the purgatories."""

    __slots__ = ("_node", "deleted", "log", "state", "topic", "topic_id")

    def __init__(self, node: Node, state: PartitionState, log: PartitionLog) -> None:
        self._node = node
        self.state = state
        self.topic = state.topic
        self.topic_id = state.topic_id
        self.log = log
        log.sole_replica = len(state.isr) == 1
        self.deleted = False

    @property
    def index(self) -> int:
        return self.state.partition

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return not self.deleted and self.state.leader == self._node.node_id

    @property
    def offline(self) -> StorageError | None:
        """Why it takes no appends; None if it does."""
        return self.log.offline

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    def become(self, state: PartitionState) -> None:
        """Take over what the metadata says now."""
        before, self.state = self.state, state
        self.log.sole_replica = len(state.isr) == 1
        if self.is_leader and state.leader_epoch > before.leader_epoch:
            self.log.assign_leader_epoch(state.leader_epoch)
        self.changed()

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Compare the leader epoch that a client knows (-1: none) with ours."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch < 0 or current_leader_epoch == self.state.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(self, records: memoryview, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendResult:
        """Append one batch as leader. Raises BrokerError. Whoever answers acks 1 or -1 must look at `settled` first."""
        log = self.log
        before = log.high_watermark
        result = log.append_as_leader(records, self.state.leader_epoch, now_ms, origin)
        if log.high_watermark > before:
            self._high_watermark_moved()
        return result

    def append_for(self, records: memoryview, now_ms: int, acks: int) -> AppendResult:
        """Append a client's batch, if this broker leads and, for acks -1, enough replicas are in sync. Raises
        BrokerError."""
        state = self.state
        if self.deleted or state.leader != self._node.node_id:
            raise NotLeader
        if acks == -1 and len(state.isr) < state.min_insync_replicas:
            raise NotEnoughReplicas
        return self.append(records, now_ms)

    def settled(self, result: AppendResult) -> bool:
        """Whether an append is below the high watermark, so that nothing has to be waited for."""
        return not result.flush_required and self.log.high_watermark > result.last_offset

    def raise_high_watermark(self) -> None:
        """Move the high watermark as far as it may go; wake whoever waits for it."""
        log = self.log
        limit = log.hw_limit
        if limit > log.high_watermark and log.advance_high_watermark(limit):
            self._high_watermark_moved()

    def flush_unasked(self, result: AppendResult) -> None:
        """Have an append flushed that must be, though nobody waits for it: before that it is shown to nobody."""
        if result.flush_required:
            self.log.flusher.request(result, self.flush_ended)

    def flush_ended(self, error: ErrorCode) -> None:
        """A flush went well, or failed and the log was cut back: tell whoever waits for either."""
        if error:
            self.changed()
        else:
            self.raise_high_watermark()

    def changed(self) -> None:
        """Something that requests may wait for has changed."""
        for purgatory in self._node.purgatories:
            if self in purgatory.watchers:
                purgatory.check_and_complete(self)

    def _high_watermark_moved(self) -> None:
        # Where there is no other replica a writer waits for its own flush alone, which tells it: to look at all of them
        # for each flush would be quadratic in the requests in flight.
        fetches = self._node.fetch_purgatory
        if not self.log.sole_replica:
            self.changed()
        elif self in fetches.watchers:
            fetches.check_and_complete(self)

    def delete(self) -> None:
        """The partition is gone: whoever waits for it hears so."""
        self.deleted = True
        self.changed()

    def __str__(self) -> str:
        return f"{self.topic}-{self.state.partition}"
