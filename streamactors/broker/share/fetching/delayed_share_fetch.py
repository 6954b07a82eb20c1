"""A share fetch that waits until there is something to acquire, or for its timeout (Kafka's DelayedShareFetch).

Owner: the data plane. It waits under its share partitions, which change when records are released or loaded, and under their partitions, whose high
watermark moves. The records are read and acquired after it completes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from streamactors.broker.errors import BrokerError
from streamactors.broker.purgatory import DelayedOperation
from streamactors.broker.share.fetching.led_share_partition import LedSharePartition
from streamactors.broker.share.fetching.share_reading import ShareLimitsOfFetch, acquirable, bound_of

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime


class DelayedShareFetch(DelayedOperation):
    """Calls `done` once, when the share partitions should be read."""

    __slots__ = ("_done", "_limits", "_partitions")

    def __init__(
        self,
        partitions: Sequence[LedSharePartition],
        limits: ShareLimitsOfFetch,
        max_wait_ms: float,
        done: Callable[[], object],
    ) -> None:
        super().__init__(max_wait_ms)
        self._partitions = partitions
        self._limits = limits
        self._done = done

    def wait(self, node: Runtime) -> None:
        """Enter the purgatory, or complete at once."""
        keys: list[Hashable] = [each.key for each in self._partitions]
        keys += {each.partition for each in self._partitions}
        node.fetch_purgatory.try_complete_else_watch(self, keys)

    def try_complete(self) -> bool:
        if any(led.failure.error for led in self._partitions):
            return self.force_complete()
        available = 0
        for led, offset in acquirable(self._partitions):
            size = self._available(led, offset)
            if size is None:
                return self.force_complete()
            available += size
            if size and available >= self._limits.min_bytes:
                return self.force_complete()
        return False

    def _available(self, led: LedSharePartition, offset: int) -> int | None:
        """Return the bytes that a read would return now, None if it would return an error or move the start."""
        partition = led.partition
        if partition.client_error(led.leader_epoch) or offset < partition.log_start_offset:
            return None
        bound = bound_of(partition, self._limits.read_committed)
        if offset >= bound:
            return 0
        if self._limits.min_bytes <= 1:
            return 1
        try:
            piece = partition.log.read(offset, self._limits.max_bytes, bound, True)
        except (BrokerError, OSError):
            return None
        length = piece.length
        piece.release()
        return length

    def on_complete(self) -> None:
        done = self._done
        del self._done  # it refers to this operation: only the garbage collector would free the two
        done()
