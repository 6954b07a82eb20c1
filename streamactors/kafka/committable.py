"""Offsets in hand: a record together with the handle that commits it, and batches of such handles.

A message, its record and its handle are tuples of the same three fields, (value, librdkafka's message, origin). So C code makes one from the
other, and only librdkafka's message lives as long as the element. Where a Committer follows the steps inside a source, no stage needs the
message after the steps: they see one message that is filled again, and the Committer gets a list of numbers (`GatheredOffsets`).

A handle holds its consumer and the epoch of its assignment. A commit for a partition that has been revoked since does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.engine.fusing.loop import Refilled
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError, StreamError
from streamactors.kafka.client.runs import offsets_of
from streamactors.kafka.reading.messages import CommitReply
from streamactors.kafka.reading.offset_tracker import Offsets, OffsetTracker, highest_of
from streamactors.kafka.record import ConsumerRecord, KeptRecord, PassingRecord
from streamactors.kafka.subscriptions import TopicPartition


class Origin:
    """The origin of a chunk: its partition, the epoch of the assignment, and the consumer that commits its offsets."""

    __slots__ = ("commit", "epoch", "key", "tracker")

    def __init__(
        self, key: TopicPartition, epoch: int, tracker: OffsetTracker, commit: Callable[[StreamFuture[None]], None]
    ) -> None:
        self.key = key
        self.epoch = epoch
        self.tracker = tracker
        self.commit = commit
        """Commits every offset that is acknowledged so far, and then completes the future."""


class CommittableOffset(tuple[Any, Any, Origin]):
    """The position after one record. Immutable; made on access."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        return self[2].key.topic

    @property
    def partition(self) -> int:
        return self[2].key.partition

    @property
    def offset(self) -> int:
        """The record's own offset. A commit stores this offset + 1, the next to read."""
        offset: int = self[1].offset()
        return offset

    @property
    def epoch(self) -> int:
        """The number of the assignment that delivered the record."""
        return self[2].epoch

    def commit(self) -> StreamFuture[None]:
        """Commit the offset now. The future completes when the broker has stored the offset, or when the partition belongs to another member,
        which reads the record again. It fails with CommitFailed or CommitTimeout."""
        return CommittableOffsetBatch().updated(self).commit()

    def __repr__(self) -> str:
        return f"CommittableOffset({self[2].key}@{self.offset})"


class CommittableMessage:
    """A record and its offset handle."""

    __slots__ = ()

    @property
    def record(self) -> ConsumerRecord:
        """The record."""
        raise NotImplementedError

    @property
    def offset(self) -> CommittableOffset:
        """The handle that commits the position after the record."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"CommittableMessage({self.record!r})"


class KeptMessage(CommittableMessage, tuple[Any, Any, Origin]):
    """A message of a chunk."""

    __slots__ = ()

    record = property(KeptRecord)
    offset = property(CommittableOffset)


class PassingMessage(CommittableMessage):
    """A message that is refilled with the next one, unless a reference to it or to its record remains."""

    __slots__ = ("origin", "record")

    def __init__(self) -> None:
        self.record: Any = PassingRecord()
        self.origin: Any = None

    @property
    def offset(self) -> CommittableOffset:
        record = self.record
        return CommittableOffset((record.value, record.message, self.origin))


class GatheredOffsets(list[Any]):
    """The offsets of the messages of a chunk, in order. A step's result that is no message and no offset of the chunk is in a tuple of its own."""

    __slots__ = ("origin",)

    handle = CommittableOffset

    def __init__(self, origin: Origin, found: Iterable[Any] = ()) -> None:
        super().__init__(found)
        self.origin = origin

    def cut(self, n: int) -> tuple[GatheredOffsets, GatheredOffsets]:
        """Return the first n and the rest."""
        if len(self) <= n:
            return self, GatheredOffsets(self.origin)
        return GatheredOffsets(self.origin, self[:n]), GatheredOffsets(self.origin, self[n:])


def _gather(x: str) -> tuple[str, ...]:
    """Return the lines that add the result in a variable to the gathered offsets `s`."""
    if x == "r":
        return ("s.append(m.offset())",)
    return (
        f"if {x} is r: s.append(m.offset())",
        f"elif {x}.__class__ is handle and {x}[2] is s.origin: s.append({x}[1].offset())",
        f"else: s.append(({x},))",
        f"{x} = None",  # or it would hold the message that is filled next
    )


GATHERING: Final = Refilled(
    PassingMessage,
    ("q.message = m", "q.value = m.value()"),
    ("r.origin = s.origin", "q = r.record", "handle = s.handle"),
    "references(r) != alone or references(q) != alone + 1",  # the message refers to its record
    _gather,
)
"""How a fused loop gathers the offsets of librdkafka's messages; the state of the loop is the GatheredOffsets."""


Convert = Callable[[Iterable[Any], Iterable[Any], Origin], Iterable[Any]]
"""Makes the elements of a chunk from its values and librdkafka's messages."""


def committable(values: Iterable[Any], messages: Iterable[Any], origin: Origin) -> Iterator[CommittableMessage]:
    """Return the records of a chunk with their handles."""
    return map(KeptMessage, zip(values, messages, repeat(origin), strict=False))


def committable_with_metadata(metadata_of: Callable[[ConsumerRecord], str]) -> Convert:
    """As `committable`; a commit stores what `metadata_of` returns for the last record before its position."""

    def convert(values: Iterable[Any], messages: Iterable[Any], origin: Origin) -> Iterable[CommittableMessage]:
        found = list(committable(values, messages, origin))
        origin.tracker.described(origin.key, origin.epoch, [_described(metadata_of, each) for each in found])
        return found

    return convert


def _described(metadata_of: Callable[[ConsumerRecord], str], message: CommittableMessage) -> tuple[int, str]:
    """Return the position after a record, and what its commit says."""
    offset = message.offset
    try:
        text = metadata_of(message.record)
    except BaseException as error:  # the user's function
        blame(error, "metadata_from_record", offset, metadata_of)
        raise
    if not isinstance(text, str):
        raise StreamError(
            f"metadata_from_record returned {type(text).__name__} for {offset.topic}-{offset.partition}@{offset.offset}; it returns a str"
        )
    return offset.offset + 1, text


class CommittableOffsetBatch:
    """Offsets to be committed together. `updated` adds offsets; after `commit` the batch must not change."""

    __slots__ = ("_offsets", "size")

    def __init__(self) -> None:
        self._offsets: dict[Origin, list[Offsets]] = {}
        self.size = 0

    def updated(self, offset: CommittableOffset | CommittableOffsetBatch) -> CommittableOffsetBatch:
        """Add an offset, or those of another batch; return this batch."""
        if isinstance(offset, CommittableOffsetBatch):
            for origin, runs in offset._offsets.items():
                for run in runs:
                    self._append(origin, run)
            self.size += offset.size
        else:
            _, message, origin = offset
            at = message.offset()
            self._append(origin, range(at, at + 1))
            self.size += 1
        return self

    def _append(self, origin: Origin, found: Offsets) -> None:
        """Add offsets of one assignment. Usually they follow the last range directly, and make it longer."""
        runs = self._offsets.setdefault(origin, [])
        last = runs[-1] if runs else None
        if isinstance(found, range):
            if isinstance(last, range) and last.stop == found.start:
                runs[-1] = range(last.start, found.stop)
                return
        elif isinstance(last, list):
            last += found
            return
        runs.append(found.copy() if isinstance(found, list) else found)  # the list may be another batch's

    def add_all(self, found: list[Any]) -> None:
        """Call `add` for each element. Fast if all are offsets or messages of one chunk, which is the usual case."""
        kinds = set(map(type, found))
        if type(found) is GatheredOffsets:
            self._add_gathered(found, kinds)
            return
        if kinds in (_ONLY_OFFSETS, _ONLY_MESSAGES):
            origins = list(map(_ORIGIN, found))
            origin = origins[0]
            if origins.count(origin) == len(origins):
                self._add_numbers(origin, offsets_of(map(_MESSAGE, found)))
                return
        for each in found:
            self.add(each)

    def _add_gathered(self, found: GatheredOffsets, kinds: set[type]) -> None:
        if kinds == _ONLY_NUMBERS:
            self._add_numbers(found.origin, list(found))
            return
        for each in found:
            if type(each) is int:
                self._add_numbers(found.origin, [each])
            else:
                self.add(each[0])

    def _add_numbers(self, origin: Origin, offsets: list[int]) -> None:
        whole = range(offsets[0], offsets[0] + len(offsets))
        self._append(origin, whole if offsets == list(whole) else offsets)
        self.size += len(offsets)

    def add(self, found: Any) -> None:
        """Add the result of a user's `offset=` function: an offset, a batch, an iterable of these, or None for no offset."""
        if type(found) is CommittableOffset or isinstance(found, CommittableOffsetBatch):
            self.updated(found)
        elif isinstance(found, CommittableMessage):
            self.updated(found.offset)
        elif isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
            for each in found:
                self.add(each)
        elif found is not None:
            raise BuildError(
                f"a Committer needs a CommittableOffset, or several, got {type(found).__name__}; offset=… returns it from the element"
            )

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the highest position of each partition."""
        highest: dict[TopicPartition, int] = {}
        for origin, runs in self._offsets.items():
            highest[origin.key] = max(highest.get(origin.key, 0), *(highest_of(run) + 1 for run in runs))
        return highest

    def acknowledge(self) -> dict[OffsetTracker, Callable[[StreamFuture[None]], None]]:
        """Acknowledge the offsets at their trackers; return the commit function of each consumer, by tracker."""
        consumers = {}
        for origin, runs in self._offsets.items():
            origin.tracker.acknowledge(origin.key, origin.epoch, *runs)
            consumers[origin.tracker] = origin.commit
        return consumers

    def commit(self) -> StreamFuture[None]:
        """Commit all offsets. The future completes when every broker has stored them; it fails with CommitFailed or CommitTimeout."""
        return all_committed(self.acknowledge().values())

    def __repr__(self) -> str:
        return f"CommittableOffsetBatch({self.size}: {', '.join(f'{k}@{v}' for k, v in self.offsets().items())})"


_ONLY_OFFSETS, _ONLY_MESSAGES, _ONLY_NUMBERS = {CommittableOffset}, {KeptMessage}, {int}
_MESSAGE, _ORIGIN = itemgetter(1), itemgetter(2)


def all_committed(
    commits: Iterable[Callable[[StreamFuture[None]], None]], max_retries: int | None = None
) -> StreamFuture[None]:
    """Commit at several consumers. The future completes with the last commit, and fails with the first that fails."""
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
