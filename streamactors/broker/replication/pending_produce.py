"""A Produce request that waits for its flush and, with acks=-1, for the high watermark (Kafka's DelayedProduce).

Owner: the data plane. It completes when each partition is settled: flushed and below the high watermark, failed, or no longer
led by this broker. Until then the error of a partition is REQUEST_TIMED_OUT, so a timeout needs no extra work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.purgatory import DelayedOperation
from streamactors.broker.replication.hosted_partition import HostedPartition

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime


class UnsettledAppend:
    """An append that is not settled yet."""

    __slots__ = ("error", "flushed", "partition", "pending", "result")

    def __init__(self, partition: HostedPartition, result: AppendResult) -> None:
        self.partition = partition
        self.result = result
        self.error = ErrorCode.REQUEST_TIMED_OUT
        self.pending = True
        self.flushed = not partition.must_flush(result)

    def settle(self, error: ErrorCode) -> None:
        self.error = error
        self.pending = False


class PendingProduce(DelayedOperation):
    """Calls `done` once, when every append is settled or the timeout ends."""

    __slots__ = ("_all_replicas", "_appended", "_done", "_node")

    def __init__(
        self,
        node: Runtime,
        appended: Sequence[UnsettledAppend],
        timeout_ms: float,
        done: Callable[[], object],
        *,
        all_replicas: bool = True,
    ) -> None:
        super().__init__(timeout_ms)
        self._node = node
        self._all_replicas = all_replicas
        self._appended = appended
        self._done = done

    def wait(self) -> None:
        """Request the flushes and enter the purgatory."""
        for appended in self._appended:
            if not appended.flushed:
                self._request_flush(appended)
        keys = [appended.partition for appended in self._appended]
        self._node.produce_purgatory.try_complete_else_watch(self, keys)

    def try_complete(self) -> bool:
        for appended in self._appended:
            if appended.pending:
                self._look_at(appended)
        if any(appended.pending for appended in self._appended):
            return False
        return self.force_complete()

    def on_complete(self) -> None:
        self._done()

    def _look_at(self, appended: UnsettledAppend) -> None:
        partition = appended.partition
        if partition.lost:
            appended.settle(ErrorCode.KAFKA_STORAGE_ERROR)
        elif not partition.is_leader:
            appended.settle(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        elif not appended.flushed:
            pass
        elif not self._all_replicas:
            appended.settle(ErrorCode.NONE)
        elif partition.high_watermark >= appended.result.next_offset:
            enough = len(partition.isr) >= partition.state.min_insync_replicas
            appended.settle(ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _request_flush(self, appended: UnsettledAppend) -> None:
        def done(error: ErrorCode) -> None:
            if not error:
                appended.flushed = True
            elif appended.pending:
                # The log was truncated before this append. Its offset may already belong to another batch.
                appended.settle(error)
            appended.partition.flush_ended(error)
            # Not by the watch list: a flush of sixty requests would scan it sixty times.
            self.attempt()

        appended.partition.log.flusher.request(appended.result, done)
