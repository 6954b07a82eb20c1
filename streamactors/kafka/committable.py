"""Offsets in hand: a record together with the handle that commits it, and batches of such handles.

Message, record and handle are tuples of the same three, (value, librdkafka's message, origin), so that each is made from the other in C and
only the message lives as long as the element.

A handle knows the consumer it came from and the epoch of the assignment, so committing what has been revoked meanwhile does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import repeat
from operator import itemgetter
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.errors import BuildError
from streamactors.kafka.commit_reply import CommitReply
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.received_runs import offsets_of
from streamactors.kafka.record import ConsumerRecord, KeptRecord
from streamactors.kafka.subscriptions import TopicPartition


class Origin:
    """Where a chunk came from: its partition, the epoch of the assignment, and the consumer that commits it."""

    __slots__ = ("commit", "epoch", "key", "tracker")

    def __init__(
        self, key: TopicPartition, epoch: int, tracker: OffsetTracker, commit: Callable[[StreamFuture[None]], None]
    ) -> None:
        self.key = key
        self.epoch = epoch
        self.tracker = tracker
        self.commit = commit
        """Have everything acknowledged so far committed; ends the future."""


class CommittableOffset(tuple[Any, Any, Origin]):
    """The position behind one record. Immutable; made when asked for."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        return self[2].key.topic

    @property
    def partition(self) -> int:
        return self[2].key.partition

    @property
    def offset(self) -> int:
        """The record's own offset; committing it commits the one behind."""
        offset: int = self[1].offset()
        return offset

    @property
    def epoch(self) -> int:
        """The number of the assignment the record came with."""
        return self[2].epoch

    def commit(self) -> StreamFuture[None]:
        """Commit it now; the future ends when the broker has it, or its partition is another's, who reads the record again. It fails
        with CommitFailed or CommitTimeout."""
        return CommittableOffsetBatch().updated(self).commit()

    def __repr__(self) -> str:
        return f"CommittableOffset({self[2].key}@{self.offset})"


class CommittableMessage(tuple[Any, Any, Origin]):
    """A record and its offset handle."""

    __slots__ = ()

    record: ConsumerRecord = property(KeptRecord)  # type: ignore[assignment]
    offset: CommittableOffset = property(CommittableOffset)  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CommittableMessage({self.record!r})"


Convert = Callable[[Iterable[Any], Iterable[Any], Origin], Iterable[Any]]
"""From the values and messages of a chunk to its elements."""


def committable(values: Iterable[Any], messages: Iterable[Any], origin: Origin) -> Iterator[CommittableMessage]:
    """Return the records of a chunk with their handles."""
    return map(CommittableMessage, zip(values, messages, repeat(origin), strict=False))


class CommittableOffsetBatch:
    """Offsets to be committed together. Grows by `updated`, and is nobody's to change after `commit`."""

    __slots__ = ("_offsets", "size")

    def __init__(self) -> None:
        self._offsets: dict[Origin, list[int]] = {}
        self.size = 0

    def updated(self, offset: CommittableOffset | CommittableOffsetBatch) -> CommittableOffsetBatch:
        """Add an offset, or those of another batch; return this batch."""
        if isinstance(offset, CommittableOffsetBatch):
            for origin, offsets in offset._offsets.items():
                self._offsets.setdefault(origin, []).extend(offsets)
            self.size += offset.size
        else:
            _, message, origin = offset
            self._offsets.setdefault(origin, []).append(message.offset())
            self.size += 1
        return self

    def add_all(self, found: list[Any]) -> None:
        """As `add` for each; quick where all are offsets, or messages, of one chunk, as they mostly are."""
        kinds = set(map(type, found))
        if kinds in (_ONLY_OFFSETS, _ONLY_MESSAGES):
            origins = list(map(_ORIGIN, found))
            origin = origins[0]
            if origins.count(origin) == len(origins):
                self._offsets.setdefault(origin, []).extend(offsets_of(map(_MESSAGE, found)))
                self.size += len(found)
                return
        for each in found:
            self.add(each)

    def add(self, found: Any) -> None:
        """Add whatever a user's `offset=` function returned: an offset, a batch, several of them, or None for nothing."""
        if type(found) is CommittableOffset or isinstance(found, CommittableOffsetBatch):
            self.updated(found)
        elif isinstance(found, CommittableMessage):
            self.updated(found.offset)
        elif isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
            for each in found:
                self.add(each)
        elif found is not None:
            raise BuildError(
                f"a Committer needs a CommittableOffset, or several, got {type(found).__name__}; tell it where: offset=…"
            )

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the highest position of each partition."""
        highest: dict[TopicPartition, int] = {}
        for origin, offsets in self._offsets.items():
            highest[origin.key] = max(highest.get(origin.key, 0), max(offsets) + 1)
        return highest

    def acknowledge(self) -> dict[OffsetTracker, Callable[[StreamFuture[None]], None]]:
        """Tell the trackers; return per consumer how to have it committed."""
        consumers = {}
        for origin, offsets in self._offsets.items():
            origin.tracker.acknowledge(origin.key, origin.epoch, offsets)
            consumers[origin.tracker] = origin.commit
        return consumers

    def commit(self) -> StreamFuture[None]:
        """Commit all of it; the future ends when every broker has it, fails with CommitFailed or CommitTimeout."""
        return all_committed(self.acknowledge().values())

    def __repr__(self) -> str:
        return f"CommittableOffsetBatch({self.size}: {', '.join(f'{k}@{v}' for k, v in self.offsets().items())})"


_ONLY_OFFSETS, _ONLY_MESSAGES = {CommittableOffset}, {CommittableMessage}
_MESSAGE, _ORIGIN = itemgetter(1), itemgetter(2)


def all_committed(
    commits: Iterable[Callable[[StreamFuture[None]], None]], max_retries: int | None = None
) -> StreamFuture[None]:
    """Have several consumers commit; return the future that ends with the last, or fails with the first that does."""
    every = list(commits)
    whole: StreamFuture[None] = StreamFuture("commit")
    left = iter(range(len(every) - 1, -1, -1))  # next() on it is atomic: consumers answer on threads of their own

    def ended(one: Future[None]) -> None:
        error = one.exception()
        if error is not None:
            whole.try_fail(error)
        if next(left) == 0:
            whole.try_complete(None)

    for commit in every:
        reply = CommitReply(max_retries)
        reply.add_done_callback(ended)
        commit(reply)
    if not every:
        whole.try_complete(None)
    return whole
