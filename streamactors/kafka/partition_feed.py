"""PartitionFeed: the records of one assignment of a partition, between the consumer's thread and the sub-source that emits them.

Written by two threads: the consumer's puts records in at one end, the sub-source's island takes them out at the other. It belongs to the
assignment, not to the sub-source: when downstream cancels one, what it has not taken is here for the next, so `take(10)` on
sub-sources leaves no gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from streamactors.kafka.consumer_state import Delivery
from streamactors.kafka.received_runs import offset_of
from streamactors.kafka.subscriptions import TopicPartition


class FeedReader(Protocol):
    """Who reads a feed."""

    def look(self) -> None:
        """There is something new; any thread."""


class PartitionFeed:
    """See the module. For the consumer actor it stands where the stage of a plain source does."""

    takes_messages = True
    """Records come as librdkafka's messages."""

    __slots__ = ("_end", "_queue", "_reader", "_revoked", "asked", "epoch", "key", "record_bytes")

    def __init__(self, key: TopicPartition, epoch: int) -> None:
        self.key = key
        self.epoch = epoch
        self.asked = 0
        """Records asked of the consumer that the sub-source has not taken yet; the reader's."""
        self.record_bytes: int | None = None
        """The size of a record, by the newest delivery; None before the first."""
        self._queue: deque[Delivery] = deque()
        self._end: int | None = None
        self._reader: FeedReader | None = None
        self._revoked = False

    # ── the consumer's thread ─────────────────────────────────────────────────────────────────────────────────────

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Call a handler of this feed, which may be called on the consumer's thread."""
        handler(argument)

    def on_records(self, delivery: Delivery) -> None:
        """Records have come."""
        self.record_bytes = delivery.size // len(delivery.records)
        self._queue.append(delivery)
        self._tell()

    def on_end(self, position: int) -> None:
        """A bounded read has delivered everything; its end is before `position`."""
        self._end = position
        self._tell()

    def revoke(self) -> None:
        """The assignment is over: nothing of it may be emitted from here on."""
        self._revoked = True

    def _tell(self) -> None:
        reader = (
            self._reader
        )  # looked at after the queue was filled; a new reader is set before it looks into the queue
        if reader is not None:
            reader.look()

    # ── the reader's thread ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def revoked(self) -> bool:
        """True when the assignment is over."""
        return self._revoked

    def read_by(self, reader: FeedReader | None) -> None:
        """Tell `reader` from now on."""
        self._reader = reader

    def take(self, n: int) -> Delivery | None:
        """Return up to n records, None when there are none."""
        queue = self._queue
        if self._revoked:
            queue.clear()
        if not queue:
            return None
        found = queue.popleft()
        if len(found.records) > n:
            rest = found.records[n:]
            queue.appendleft(found._replace(records=rest))
            found = found._replace(records=found.records[:n], end=offset_of(rest[0]))
        self.asked -= len(found.records)
        return found

    def give_back(self, rest: Delivery) -> None:
        """The tail of what was taken last is for the next `take`."""
        self._queue.appendleft(rest)
        self.asked += len(rest.records)

    @property
    def filled(self) -> bool:
        """True when there is something to take."""
        return bool(self._queue)

    @property
    def end(self) -> int | None:
        """Where a bounded read has ended, once everything before was taken."""
        end = self._end  # before the queue: what is said to be all has been put in
        return None if self._queue else end
