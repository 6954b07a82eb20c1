"""Feed: the records between the consumer actor and one source, and the one ledger of the demand between them.

A source that emits all partitions has one feed. A partitioned source has a feed per assignment of a partition. That feed belongs to the
assignment, not to the sub-source: the next sub-source takes the records that a cancelled one has left, so `take(10)` on sub-sources
leaves no gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.subscriptions import TopicPartition


class Feed:
    """Holds records between the consumer actor and one source. Everything but `deliver` is called on the island of the source."""

    __slots__ = ("_queue", "asked", "deliver")

    def __init__(self, deliver: Callable[[Delivery], None]) -> None:
        self.deliver = deliver
        """Called with each delivery on the consumer's thread."""
        self.asked = 0
        """Records that were requested from the consumer and that the source has not taken yet."""
        self._queue: deque[Delivery] = deque()

    def put(self, delivery: Delivery) -> None:
        """Append a delivery that was asked for."""
        self._queue.append(delivery)

    def take(self, n: int) -> Delivery | None:
        """Return the next delivery, cut to n records; None when there is none. A delivery without records needs no demand."""
        queue = self._queue
        if not queue:
            return None
        found = queue[0]
        if len(found.records) <= n:
            queue.popleft()
        elif n:
            found, queue[0] = found.cut(n)
        else:
            return None
        self.asked -= len(found.records)
        return found

    def give_back(self, rest: Delivery) -> None:
        """Put back the end of the delivery that was taken last; the next `take` returns it."""
        self._queue.appendleft(rest)
        self.asked += len(rest.records)

    def drop(self, assignments: dict[TopicPartition, int]) -> None:
        """Drop the records of these assignments, {partition: epoch}."""
        kept: deque[Delivery] = deque()
        for delivery in self._queue:
            if assignments.get(delivery.key) == delivery.epoch:
                self.asked -= len(delivery.records)
            else:
                kept.append(delivery)
        self._queue = kept

    def clear(self) -> None:
        """Drop all records."""
        self._queue.clear()

    def holds(self, key: TopicPartition) -> bool:
        """True while the feed holds a delivery of the partition."""
        return any(delivery.key == key for delivery in self._queue)

    @property
    def filled(self) -> bool:
        """True when `take` has something to return."""
        return bool(self._queue)


class PartitionFeed(Feed):
    """The feed of one assignment of a partition. The consumer's thread appends at one end, the sub-source's island takes at the other."""

    __slots__ = ("_end", "_on_change", "_revoked", "epoch", "key", "record_bytes")

    def __init__(self, key: TopicPartition, epoch: int) -> None:
        super().__init__(self._append)
        self.key = key
        self.epoch = epoch
        self.record_bytes: int | None = None
        """Bytes of a record of the newest delivery; None before the first."""
        self._end: int | None = None
        self._on_change: Callable[[], None] | None = None
        self._revoked = False

    # ── the consumer's thread ─────────────────────────────────────────────────────────────────────────────────────

    def _append(self, delivery: Delivery) -> None:
        if delivery.records:
            self.record_bytes = delivery.size // len(delivery.records)
        self._queue.append(delivery)
        self._changed()

    def finish(self, position: int) -> None:
        """A bounded read has delivered everything before its end, `position`."""
        self._end = position
        self._changed()

    def revoke(self) -> None:
        """End the assignment: none of its records may be emitted from here on."""
        self._revoked = True

    def _changed(self) -> None:
        on_change = self._on_change  # read after the append; a new reader is set before it looks into the queue
        if on_change is not None:
            on_change()

    # ── the sub-source's island ───────────────────────────────────────────────────────────────────────────────────

    def when_changed(self, on_change: Callable[[], None] | None) -> None:
        """From now on call `on_change`, on the consumer's thread, after each delivery and at the end."""
        self._on_change = on_change

    def take(self, n: int) -> Delivery | None:
        if self._revoked:
            self._queue.clear()
        return super().take(n)

    def holds(self, key: TopicPartition) -> bool:
        return bool(self._queue)

    @property
    def revoked(self) -> bool:
        """True when the assignment is over."""
        return self._revoked

    @property
    def end(self) -> int | None:
        """The end of a bounded read once everything before it was taken, else None."""
        end = self._end  # read before the queue: the end is set after the last delivery was appended
        return None if self._queue else end
