"""A hosted partition: its log, its leader and its replication state.

Owner: the data plane. Of a partition with one replica, the high watermark is the log's own limit: the first record with a pending
required flush, else the log end. Otherwise `leader_state` says how far it may go. Source: Kafka's cluster.Partition."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import BrokerError, ErrorCode, StorageError, StorageShortage
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.producers.refused_batches import REMEMBERED_MS, EarlierBatchRefused, may_follow_refused
from streamactors.broker.metadata.image import NO_LEADER
from streamactors.broker.records.validation import AppendOrigin
from streamactors.broker.replication.append_times import AppendTimes
from streamactors.broker.replication.leader_state import LeaderState
from streamactors.broker.replication.lease_state import candidates, lease_end_ms
from streamactors.broker.replication.read_replica import STAY, preferred_replica
from streamactors.broker.replication.sessions.fetch_session import Cached, FetchSession

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime


ALL_REPLICAS: Final = -1
"""acks=-1: answer when every in-sync replica has the records."""


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
    elr: tuple[int, ...] = ()
    """The eligible replicas outside the ISR (KIP-966)."""
    unclean: bool = False
    """Whether the topic allows unclean elections."""
    directory_id: uuid.UUID | None = None
    """The data folder in which this broker has it, as the metadata says."""


def enough_in_sync(min_insync_replicas: int, replicas: Sequence[int]) -> int:
    """Return how many replicas must be in sync, at most the number of replicas of the partition."""
    return min(min_insync_replicas, len(replicas))


class HostedPartition:
    """One partition on this broker. The object is its own key in the purgatories."""

    __slots__ = (
        "_node",
        "append_times",
        "deleted",
        "leader_state",
        "log",
        "lost",
        "sessions",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(self, node: Runtime, state: PartitionState, log: PartitionLog) -> None:
        self._node = node
        self.state = state
        self.topic = state.topic
        self.topic_id = state.topic_id
        self.log = log
        self.deleted = False
        self.lost = False
        """The data folder of the log has failed: it is neither written nor read."""
        self.append_times: AppendTimes | None = None
        self.sessions: dict[FetchSession, Cached] = {}
        """The fetch sessions with this partition in them."""
        self.leader_state: LeaderState | None = None
        """What this broker knows of the followers, while it leads a partition with several replicas."""
        self._take_role()

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
        return self.state.isr if self.leader_state is None else self.leader_state.isr

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return not self.deleted and self.state.leader == self._node.node_id

    @property
    def is_follower(self) -> bool:
        """Whether this broker copies the partition from another one."""
        return not self.deleted and self.state.leader not in (self._node.node_id, NO_LEADER)

    @property
    def has_lease(self) -> bool:
        """Whether this leader may speak for the partition: no other broker can have been elected yet (see `lease_state`)."""
        leading, node = self.leader_state, self._node
        if leading is None:
            return True  # the only replica
        now_ms = node.clock.now_ms()
        controller_end_ms = node.replication.lease_end_ms
        if now_ms <= controller_end_ms:
            return True
        state = self.state
        others = candidates(
            leading.me, replicas=state.replicas, isr=leading.maximal_isr, elr=state.elr, unclean=state.unclean
        )
        fetched_ms = {each: remote.fetched_ms for each, remote in leading.remotes.items()}
        for session in self.sessions:  # a fetch of a session does not name a partition again that has not changed
            if session.of_follower and session.used_ms > fetched_ms.get(session.replica_id, session.used_ms):
                fetched_ms[session.replica_id] = session.used_ms
        return now_ms <= lease_end_ms(controller_end_ms, others, fetched_ms, node.replication.lag_ms)

    def preferred_replica(self, rack: str, offset: int) -> int:
        """Return the follower in a rack that a consumer is sent to, -1 for none (see `read_replica`)."""
        leading = self.leader_state
        return STAY if leading is None else preferred_replica(leading, self._node.metadata.image.brokers, rack, offset)

    @property
    def offline(self) -> StorageError | None:
        """The reason why appends are refused, None if they are not."""
        return self.log.offline

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    @property
    def awaits_high_watermark(self) -> bool:
        """True while this new leader does not know the former leader's high watermark, because the in-sync replicas have not fetched yet."""
        leading = self.leader_state
        return leading is not None and self.high_watermark < leading.start_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    def become(self, state: PartitionState) -> None:
        """Apply a new state from the metadata."""
        before, self.state = self.state, state
        if self.lost:
            self.changed()
            return
        if self.is_leader and state.leader_epoch > before.leader_epoch:
            with suppress(StorageShortage):  # the first append of the epoch records it
                self.log.assign_leader_epoch(state.leader_epoch)
        self._take_role()
        self.update_high_watermark()
        self.changed()

    def _take_role(self) -> None:
        """Begin or end to count followers, as the metadata says."""
        state = self.state
        # Without other brokers nobody follows: the members of the ISR are all that counts.
        others = self._node.replication.others
        self.log.sole_replica = len(state.replicas if others else state.isr) == 1
        if not self.is_leader or self.log.sole_replica or not others:
            self.leader_state = None
        elif self.leader_state is None or self.leader_state.epoch != state.leader_epoch:
            self.leader_state = LeaderState(
                self._node.node_id,
                epoch=state.leader_epoch,
                start_offset=self.log.end_offset,
                replicas=state.replicas,
                isr=state.isr,
                partition_epoch=state.partition_epoch,
                now_ms=self._node.clock.now_ms(),
            )
        else:
            self.leader_state.learn(state.replicas, state.isr, state.partition_epoch)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Compare the leader epoch of a client or follower (-1: none) with the current one."""
        if self.lost:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.deleted and current_leader_epoch >= 0 and current_leader_epoch != self.state.leader_epoch:
            older = current_leader_epoch < self.state.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def client_error(self, current_leader_epoch: int) -> ErrorCode:
        """As `epoch_error`, for a client: a leader without a lease does not count as one. A follower is answered, because its fetches are what gives a lease."""
        error = self.epoch_error(current_leader_epoch)
        return error if error or self.has_lease else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def append(self, records: memoryview, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendResult:
        """Append one batch as leader. Raises BrokerError. Check `settled` before an answer with acks 1 or -1."""
        log = self.log
        before = log.high_watermark
        result = log.append_as_leader(records, self.state.leader_epoch, now_ms, origin)
        times = self.append_times
        if times is not None and not result.duplicate and not times.note(result.base_offset, now_ms):
            self.append_times = None
        if self.sessions:
            self._touch_sessions()
        if log.high_watermark > before:
            self._high_watermark_moved()
        elif self.leader_state is not None:
            self.update_high_watermark()
            self._wake_fetches()  # followers read beyond the high watermark
        return result

    def appended_ms(self, offset: int) -> int | None:
        """Return when a record was appended, in ms since 1970; None if that is not known. The first question begins to note it."""
        self.append_times = times = self.append_times or AppendTimes()
        return times.of(offset, self._node.clock.wall_ms()) if offset < self.log.end_offset else None

    def append_for(self, records: memoryview, now_ms: int, acks: int) -> AppendResult:
        """Append a client's batch if this broker leads and, for acks -1, enough replicas are in sync. Raises BrokerError."""
        state = self.state
        if self.deleted or state.leader != self._node.node_id:
            raise NotLeader if not self.lost else StorageError(f"{self}: its data folder has failed")
        leading = self.leader_state
        if leading is not None:
            if not self.has_lease:  # the records would be lost when the next leader is heard of
                raise NotLeader
            is_new = self._node.clock.now_ms() - leading.began_ms < REMEMBERED_MS
            if is_new and may_follow_refused(records, self.log.next_sequence):
                raise EarlierBatchRefused(
                    f"{self}: a batch before this one is missing, which the former leader may have refused"
                )
        if acks == ALL_REPLICAS and len(self.isr) < state.min_insync_replicas:
            raise NotEnoughReplicas
        return self.append(records, now_ms)

    def settled(self, result: AppendResult, acks: int) -> bool:
        """Whether an append can be answered now. With acks 1 the leader's own copy is enough, unless a failing flush of an
        earlier append can still remove it."""
        if result.flush_required:
            return False
        log = self.log
        return log.high_watermark > result.last_offset or (acks != ALL_REPLICAS and not log.sole_replica)

    def must_flush(self, result: AppendResult) -> bool:
        """Whether the answer waits for a flush: of this append, or of an earlier one that holds the high watermark back."""
        return result.flush_required or self.log.sole_replica

    def update_high_watermark(self) -> None:
        """Compute how far the high watermark may go, raise it there and complete the requests that wait for it.

        With other replicas only a leader raises it, as far as their fetches allow."""
        log, leading = self.log, self.leader_state
        limit = log.hw_limit
        if leading is not None:
            node = self._node
            limit = leading.high_watermark(
                limit,
                now_ms=node.clock.now_ms(),
                lag_ms=node.replication.lag_ms,
                min_isr=self.state.min_insync_replicas,
                eligible=node.replication.eligible,
            )
        elif not log.sole_replica:
            return
        if limit > log.high_watermark and log.advance_high_watermark(limit):
            self._high_watermark_moved()

    def followed(self, replica: int, broker_epoch: int, offset: int) -> None:
        """Note the fetch of a follower, which has everything below `offset`. Raises NotLeader if it is not a replica."""
        leading, node = self.leader_state, self._node
        if leading is None:
            raise NotLeader
        if not leading.fetched(replica, broker_epoch, offset, self.log.end_offset, node.clock.now_ms()):
            raise NotLeader
        self.update_high_watermark()
        if replica not in leading.isr:
            proposal = leading.growth(replica, self.log.high_watermark, node.replication.eligible)
            if proposal is not None:
                node.replication.propose(self, proposal)

    def follow_high_watermark(self, high_watermark: int) -> None:
        """Take over the leader's high watermark, and check the fetches of consumers that wait at this follower."""
        if high_watermark > self.log.high_watermark and self.log.advance_high_watermark(high_watermark):
            self._wake_fetches()

    def flush_unasked(self, result: AppendResult) -> None:
        """Request a required flush although no answer waits for it: consumers see the records only after the flush."""
        if result.flush_required:
            self.log.flusher.request(result, self.flush_ended)

    def resign(self) -> None:
        """Lead no longer, as the controller has confirmed; the metadata that says so may not be here yet."""
        self.become(replace(self.state, leader=NO_LEADER))

    def flush_again(self) -> None:
        """Flush the records whose required flush has failed because no descriptor was left."""
        log = self.log
        if log.offline is None and log.hw_limit < log.end_offset:
            last = log.end_offset - 1
            appended = AppendResult(last, last, -1, log.log_start_offset, False, True, -1, log.generation)
            log.flusher.request(appended, self.flush_ended)

    def flush_ended(self, error: ErrorCode) -> None:
        """Handle the end of a flush, or its failure with a truncation: complete the requests that wait for either."""
        if error:
            self.changed()
        else:
            self.update_high_watermark()

    def changed(self) -> None:
        """Check the requests that wait for this partition."""
        for purgatory in self._node.purgatories:
            if self in purgatory.watchers:
                purgatory.check_and_complete(self)
        if self.sessions:
            self._wake_fetches()

    def _touch_sessions(self) -> None:
        leading = self.leader_state
        for session, cached in self.sessions.items():
            if session.touch(cached) and leading is not None and session.of_follower:
                leading.heard(session.replica_id, session.used_ms)

    def _wake_fetches(self) -> None:
        """Check the fetches that wait for this partition, and those of the sessions with it."""
        fetches = self._node.fetch_purgatory
        if self in fetches.watchers:
            fetches.check_and_complete(self)
        if self.sessions:
            self._touch_sessions()
            for session in tuple(self.sessions):
                if session in fetches.watchers:
                    fetches.check_and_complete(session)

    def _high_watermark_moved(self) -> None:
        # A sole replica's Produce requests wait only for their own flushes, which complete them. A check of all requests
        # after each flush would be quadratic in the requests in flight.
        if not self.log.sole_replica:
            self.changed()
        else:
            self._wake_fetches()

    def moved(self, log: PartitionLog) -> None:
        """Go on with the same log in another data folder."""
        self.log = log
        self._take_role()
        self.update_high_watermark()
        self.changed()

    def lose(self) -> None:
        """Refuse everything because the data folder has failed, and complete the requests that wait."""
        self.lost = True
        self.leader_state = None
        self.changed()

    def read_failed(self, error: OSError) -> None:
        """Note that the log cannot be read: its data folder may have failed. On any thread."""
        self.log.folder.failed(error)

    def delete(self) -> None:
        """Mark the partition as deleted and complete the requests that wait for it."""
        self.deleted = True
        self.changed()

    def __str__(self) -> str:
        return f"{self.topic}-{self.state.partition}"
