"""Copies the partitions that one other broker leads: fetches, appends, truncates.

Owner: the data plane. One request is under way at any time, for all partitions that are due (`follower_request`). What an answer means is in
`follower_state`. With a fetch session (`follower_session`) a request names only the partitions that have changed. Records go from the socket's
buffer to the log without a message in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, ErrorCode, StorageError, StorageShortage
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.metadata.image import METADATA_VERSION
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelClosed, ChannelRefused
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.replication.follower_request import (
    FETCH_KEY,
    FetchPosition,
    PartitionKey,
    fetch_body,
    fetch_version,
)
from streamactors.broker.replication.follower_state import (
    BACKOFF_MS,
    AskedFetch,
    Extend,
    FindRange,
    Following,
    Got,
    LocalLog,
    StartOver,
    TruncateTo,
    failed_range,
    judge,
    judge_range,
)
from streamactors.broker.replication.sessions.follower_session import FollowerSession
from streamactors.broker.replication.throttling import UNLIMITED

if TYPE_CHECKING:
    from streamactors.broker.replication.hosted_partition import HostedPartition
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.replication")

LIST_OFFSETS: Final = (2, 7)
LATEST: Final = -1
EARLIEST: Final = -2
FIRST_RECONNECT_MS: Final = 20.0

_SESSION_IS_GONE: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
LOOK_AT_ALL_MS: Final = 5_000.0
"""How often the fetcher compares every partition with its last request. Retention may have moved a log start."""


class _InFlight(NamedTuple):
    partition: HostedPartition
    following: Following
    asked: AskedFetch


class ReplicaFetcher:
    """The follower's side of one leader."""

    def __init__(
        self, node: Runtime, leader: int, address: Address, buffers: Buffers, epoch: Callable[[], int]
    ) -> None:
        self.leader: Final = leader
        self.address: Final = address
        self._node = node
        self._broker_epoch = epoch
        self._followed: dict[HostedPartition, Following] = {}
        self._session: FollowerSession[PartitionKey, FetchPosition] = FollowerSession()
        self._in_flight: dict[PartitionKey, _InFlight] = {}  # the partitions of the session
        self._changed: set[HostedPartition] = (
            set()
        )  # to be looked at for the next request: its state may not be what the leader knows
        self._gone: list[PartitionKey] = []
        self._looked_at_all_ms = 0.0
        config = node.config
        self._timeout_ms = config.replica_fetch_wait_max_ms + max(config.replica_lag_time_max_ms / 2, 1_000)
        self._channel = node.to_brokers.channel(
            node.data_plane,
            address,
            f"broker-{node.node_id}-fetcher-0",
            buffers,
            asks_versions=False,
            timeout_ms=self._timeout_ms,
        )
        self._asking = False
        self._flushing = 0  # logs with records that are not on the disk yet, as their topic asks for
        self._timer: Timer | None = None
        self._not_before_ms = 0.0  # after a lost connection
        self._backoff_ms = 0.0
        self._stopped = False
        self.lost = False  # the leader has closed or refused a connection, and has not answered since
        self.refused = False  # the leader's address has refused the connection, and the leader has not answered since

    def follow(self, partition: HostedPartition) -> None:
        """Copy a partition, in its current leader epoch."""
        known = self._followed.get(partition)
        if known is None or known.leader_epoch != partition.leader_epoch:
            self._followed[partition] = Following(partition.leader_epoch)
            self._changed.add(partition)
            self._ask_soon(0.0)

    def forget(self, partition: HostedPartition) -> bool:
        """Stop copying a partition. Return whether it was copied from this leader."""
        if self._followed.pop(partition, None) is None:
            return False
        self._changed.discard(partition)
        self._gone.append(_key(partition))
        return True

    @property
    def idle(self) -> bool:
        """Whether nothing is copied."""
        return not self._followed

    def stop(self) -> None:
        """Close the connection."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close("this fetcher ends")

    # --- fetching ---

    def _ask_soon(self, delay_ms: float) -> None:
        if self._asking or self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._node.data_plane.call_later(delay_ms, self._ask)

    def _ask(self) -> None:
        self._timer = None
        now_ms = self._node.clock.now_ms()
        if self._asking or self._flushing or self._stopped or not self._followed:
            return
        if now_ms < self._not_before_ms:
            self._ask_soon(self._not_before_ms - now_ms)
            return
        due = self._due(now_ms)
        session = self._session
        asked = session.request(due, self._gone)
        self._gone.clear()
        if not session.known:
            session.failed()
            later = [each.not_before_ms - now_ms for each in self._followed.values() if each.not_before_ms > now_ms]
            self._ask_soon(max(min(later, default=BACKOFF_MS), 1.0))
            return
        node = self._node
        version = fetch_version(node.metadata.image.features.get(METADATA_VERSION, 0))
        body = fetch_body(asked, version, node.config, node.node_id, self._broker_epoch())
        self._asking = True
        self._channel.request(FETCH_KEY, version, body, self._fetched)

    def _due(self, now_ms: float) -> dict[PartitionKey, FetchPosition]:
        """Return what the next fetch asks for. A partition that may have changed and is not in the result leaves the fetch session."""
        looks_at_all = (
            self._session.is_whole
            or now_ms - self._looked_at_all_ms >= LOOK_AT_ALL_MS
            or self._node.config.follower_replication_throttled_rate != UNLIMITED
        )
        if looks_at_all:
            self._looked_at_all_ms = now_ms
        if self._session.is_whole:
            self._in_flight.clear()
        candidates = list(self._followed) if looks_at_all else self._changed
        due: dict[PartitionKey, FetchPosition] = {}
        waiting = set()
        for partition in candidates:
            following, key, log = self._followed[partition], _key(partition), partition.log
            if following.due(now_ms) and not partition.offline and self._may_fetch(partition):
                fetch = AskedFetch(following.leader_epoch, log.end_offset)
                due[key] = FetchPosition(fetch, log.latest_epoch, log.log_start_offset)
                self._in_flight[key] = _InFlight(partition, following, fetch)
            else:
                waiting.add(partition)
                self._gone.append(key)
                self._in_flight.pop(key, None)
        self._changed = waiting
        return due

    def _fetched(self, answer: ChannelAnswer) -> None:
        self._asking = False
        if self._stopped:
            return
        self.lost = answer.error is not None and (self.lost or isinstance(answer.error, ChannelClosed))
        self.refused = answer.error is not None and (self.refused or isinstance(answer.error, ChannelRefused))
        if answer.error is not None or answer.value.error_code:
            code = ErrorCode.NONE if answer.error is not None else ErrorCode(answer.value.error_code)
            self._session.failed(code)
            if code in _SESSION_IS_GONE:
                self._ask()
            else:
                self._failed(answer.error or code.name)
            return
        self._backoff_ms = 0.0
        self._session.answered(answer.value.session_id)
        for topic in answer.value.responses:
            for fetched in topic.partitions:
                flight = self._in_flight.get((topic.topic_id, fetched.partition_index))
                if flight is not None and self._followed.get(flight.partition) is flight.following:
                    self._changed.add(flight.partition)
                    self._use(flight, fetched)
        self._ask()

    def _failed(self, why: object) -> None:
        if not self._backoff_ms:
            _log.info("broker %d does not answer: %s", self.leader, why)
        self._backoff_ms = min(
            max(2 * self._backoff_ms, FIRST_RECONNECT_MS), self._node.config.replica_fetch_backoff_ms
        )
        self._not_before_ms = self._node.clock.now_ms() + self._backoff_ms
        self._ask_soon(self._backoff_ms)

    def _may_fetch(self, partition: HostedPartition) -> bool:
        return bool(self._node.replication.throttles.may_fetch(partition))

    # --- one partition ---

    def _use(self, flight: _InFlight, fetched: Any) -> None:
        partition, following = flight.partition, flight.following
        error = ErrorCode(fetched.error_code)
        diverging = fetched.diverging_epoch
        got = Got(
            error,
            fetched.high_watermark,
            fetched.log_start_offset,
            (diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        )
        now_ms = self._node.clock.now_ms()
        try:
            action = judge(following, flight.asked, got, _local(partition), now_ms)
            if isinstance(action, Extend):
                self._extend(partition, action, fetched.records)
            elif isinstance(action, FindRange):
                self._find_range(partition, following)
            else:
                self._cut(partition, action)
        except StorageShortage:
            following.not_before_ms = now_ms + BACKOFF_MS  # the data folder has said so
        except StorageError as cause:
            _log.error("%s: following ends: %s", partition, cause)
            following.not_before_ms = now_ms + BACKOFF_MS
        except BrokerError as cause:
            _log.warning("%s: the records of broker %d cannot be used: %s", partition, self.leader, cause)
            following.not_before_ms = now_ms + BACKOFF_MS

    def _extend(self, partition: HostedPartition, action: Extend, records: bytes | None) -> None:
        log, wall_ms = partition.log, self._node.clock.wall_ms()
        if records:
            log.truncation.begin_with(memoryview(records), wall_ms)
            log.append_as_follower(memoryview(records), wall_ms)
            if log.end_offset - log.recovery_point >= log.config.flush_messages:
                self._flush(partition)
            self._node.replication.throttles.got(partition, len(records))
        partition.follow_high_watermark(action.high_watermark)
        if action.log_start_offset > log.log_start_offset:
            log.trim.advance_log_start(min(action.log_start_offset, log.high_watermark), wall_ms)

    def _flush(self, partition: HostedPartition) -> None:
        """Sync a log on the threads that sync for leaders, too. The next fetch waits: it tells the leader that this replica has the records, and
        acks=all with flush.messages=1 means on the disk."""
        log, last = partition.log, partition.log.end_offset - 1
        appended = AppendResult(last, last, -1, log.log_start_offset, False, True, -1, log.generation)

        def ended(error: ErrorCode) -> None:
            self._flushing -= 1
            following = self._followed.get(partition)
            if error and following is not None:
                following.not_before_ms = self._node.clock.now_ms() + BACKOFF_MS
            if not self._flushing:
                self._ask_soon(0.0)

        self._flushing += 1
        log.flusher.request(appended, ended)

    def _cut(self, partition: HostedPartition, action: object) -> None:
        log, wall_ms = partition.log, self._node.clock.wall_ms()
        if isinstance(action, TruncateTo):
            if action.offset < log.end_offset:
                _log.info(
                    "%s: truncated from %d to %d, where the leader's log differs",
                    partition,
                    log.end_offset,
                    action.offset,
                )
            log.truncation.truncate_to(action.offset, wall_ms)
        elif isinstance(action, StartOver):
            _log.info("%s: begins again at %d, where the leader's log begins", partition, action.offset)
            log.truncation.truncate_fully_and_start_at(action.offset, wall_ms)

    def _find_range(self, partition: HostedPartition, following: Following) -> None:
        """Ask for the two ends of the leader's log, one after the other."""
        found: list[int] = []

        def ask(timestamp: int) -> None:
            asked = {
                "partition_index": partition.index,
                "current_leader_epoch": following.leader_epoch,
                "timestamp": timestamp,
            }
            body = {
                "replica_id": self._node.node_id,
                "isolation_level": 0,
                "topics": [{"name": partition.topic, "partitions": [asked]}],
            }
            self._channel.request(*LIST_OFFSETS, body, answered)

        def answered(answer: ChannelAnswer) -> None:
            now_ms = self._node.clock.now_ms()
            got = None if answer.error is not None else answer.value.topics[0].partitions[0]
            if got is None or got.error_code:
                failed_range(following, now_ms)
            elif not found:
                found.append(got.offset)
                ask(LATEST)
                return
            else:
                try:
                    action = judge_range(following, following.leader_epoch, found[0], got.offset, _local(partition))
                    if self._followed.get(partition) is following:
                        self._cut(partition, action)
                except StorageShortage:
                    following.not_before_ms = now_ms + BACKOFF_MS
                except BrokerError as cause:
                    _log.error("%s: following ends: %s", partition, cause)
                    following.not_before_ms = now_ms + BACKOFF_MS
            if partition in self._followed:
                self._changed.add(partition)
            self._ask_soon(0.0)

        ask(EARLIEST)


def _key(partition: HostedPartition) -> PartitionKey:
    return partition.topic_id, partition.index


def _local(partition: HostedPartition) -> LocalLog:
    log = partition.log
    return LocalLog(log.log_start_offset, log.end_offset, log.epoch_end_offset)
