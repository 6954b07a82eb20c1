"""A produce request that waits: for its flush, and with acks=-1 for the high watermark (Kafka's DelayedProduce).

Owner: the data plane. It is done when each of its partitions is: flushed or failed, not led from here any more, or past
the high watermark. Until then a partition's error is REQUEST_TIMED_OUT, so running out of time needs no work of its
own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.log_append import AppendResult
from streamactors.broker.purgatory import DelayedOperation
from streamactors.broker.replication.partition import Partition

if TYPE_CHECKING:
    from streamactors.broker.node import Node


class Appended:
    """An append whose fate is not known yet."""

    __slots__ = ("error", "flushed", "partition", "pending", "result")

    def __init__(self, partition: Partition, result: AppendResult) -> None:
        self.partition = partition
        self.result = result
        self.error = ErrorCode.REQUEST_TIMED_OUT
        self.pending = True
        self.flushed = False

    def settle(self, error: ErrorCode) -> None:
        self.error = error
        self.pending = False


class PendingProduce(DelayedOperation):
    """Calls `done` once, when nothing is pending any more or the time is up."""

    __slots__ = ("_all_replicas", "_appended", "_done", "_node")

    def __init__(
        self,
        node: Node,
        appended: Sequence[Appended],
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
        """Ask for the flushes and go to the purgatory."""
        for appended in self._appended:
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

    def _look_at(self, appended: Appended) -> None:
        partition = appended.partition
        if not partition.is_leader:
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

    def _request_flush(self, appended: Appended) -> None:
        def done(error: ErrorCode) -> None:
            if not error:
                appended.flushed = True
            elif appended.pending:
                # The log has been cut back to before this append: its offset may belong to another batch already.
                appended.settle(error)
            appended.partition.flush_ended(error)
            # Not through the watch list: a flush of sixty requests would walk it sixty times.
            self.attempt()

        appended.partition.log.flusher.request(appended.result, done)
