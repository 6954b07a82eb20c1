"""The sampled records of one run, followed by its marks.

A sampled record is known by (source, partition) and the position after it. A mark of at least this position says that everything that stems
from the record has passed. So no element carries a context: whoever meets a mark looks here, and only while a sampled record is open.

The source pushes a sampled record as a chunk of its own, between two marks. On the way through stages that are exact, what lies between
these two marks stems from this record alone, and its span is the current one while a stage works on it. After a stage that blurs marks, such
as a batch, what lies between two marks may stem from several records: then they are links.

Owner: the run. The islands of the run call on their threads, so there is a lock, which is taken only while a record is open."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from streamactors.tracing.place import Place
    from streamactors.tracing.settles import Settles
    from streamactors.tracing.spans import Spans

Key: TypeAlias = tuple[Any, Any]
Position: TypeAlias = tuple[int, int]

MOST_OPEN: Final = 10_000
"""Sampled records of a run that are open at the same time; others are not traced meanwhile."""
BEFORE: Final[Position] = (0, -1)

_log = logging.getLogger("streamactors.tracing")


class SampledRecord:
    """A sampled record between its source and the last sink. `alone`: the chunk in which it was pushed holds no other record."""

    __slots__ = ("_settles", "_spans", "alone", "key", "of", "over", "place", "span", "stages", "start")

    def __init__(
        self, spans: Spans, span: Span, of: Place, key: Key, place: Position, *, alone: bool, settles: Settles | None
    ) -> None:
        self._spans = spans
        self.span = span
        self.of = of
        self.key = key
        self.place = place
        self.alone = alone
        self.start: Position | None = None  # of the mark right before the record
        self.over = False
        self.stages: dict[object, Span] = {}  # spans of the stages that it is in
        self._settles = settles
        if settles is not None:
            settles.add(self)

    def stage_entered(self, stage: object, name: str) -> None:
        """A stage has taken the record, or what stems from it."""
        if stage not in self.stages:
            span = self._spans.stage(name, self.span.get_span_context())
            if span is not None:
                self.stages[stage] = span

    def stage_left(self, stage: object) -> None:
        """What stems from the record has left a stage."""
        span = self.stages.pop(stage, None)
        if span is not None:
            span.end()

    def end(self) -> None:
        """The record is done, or will not be done by this run. Idempotent."""
        self.over = True
        for stage in list(self.stages):
            self.stage_left(stage)
        self.span.end()

    def failed(self, error: BaseException, *, itself: bool) -> None:
        """The stream has failed before the record was done. `itself`: while a stage worked on this record."""
        from streamactors.tracing.spans import failed

        if self.over:
            return
        for span in self.stages.values():
            failed(span, error, itself=itself)
        failed(self.span, error, itself=itself)
        if self._settles is not None:
            self._settles.forget(self)
        self.end()

    def committed(self, began_ns: int, error: BaseException | None) -> None:
        """A commit that covers the record is over."""
        self._spans.commit(self.of, self.span.get_span_context(), began_ns, error)


class _OfPartition:
    """The open records of one partition in the order of their positions, which are looked up without a Python call per comparison."""

    __slots__ = ("places", "records")

    def __init__(self) -> None:
        self.places: list[Position] = []
        self.records: list[SampledRecord] = []

    def add(self, record: SampledRecord) -> None:
        if not self.places or self.places[-1] <= record.place:
            at = len(self.places)
        else:
            at = bisect_right(self.places, record.place)
        self.places.insert(at, record.place)
        self.records.insert(at, record)

    def between(self, before: Position, place: Position) -> list[SampledRecord]:
        """Return the records after `before` and up to `place`."""
        places = self.places
        first = bisect_right(places, before)
        if first == len(places) or places[first] > place:
            return []
        return self.records[first : bisect_right(places, place, first)]

    def take(self, n: int) -> list[SampledRecord]:
        """Remove and return the first n records."""
        taken = self.records[:n]
        del self.records[:n], self.places[:n]
        return taken

    def remove(self, record: SampledRecord) -> bool:
        """Remove a record; return whether it was there."""
        if record not in self.records:
            return False
        at = self.records.index(record)
        del self.records[at], self.places[at]
        return True


class RunTrace:
    """The sampled records of a run that are not done. `open`: their number; may be read without the lock."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.open = 0
        self._lock = threading.Lock()
        self._records: dict[Key, _OfPartition] = {}
        self._newest: dict[Key, Position] = {}  # the last position of a sampled record; read without the lock
        self._failure: BaseException | None = None
        self._ended = False

    def begin(
        self, span: Span, of: Place, key: Key, place: Position, *, alone: bool, settles: Settles | None = None
    ) -> SampledRecord | None:
        """A source pushes a sampled record; return it. None, and the span has ended, if too many are open."""
        with self._lock:
            full = self.open >= MOST_OPEN or self._ended
            if not full:
                record = SampledRecord(self.spans, span, of, key, place, alone=alone, settles=settles)
                self._newest[key] = max(place, self._newest.get(key, BEFORE))
                of_partition = self._records.get(key)
                if of_partition is None:
                    of_partition = self._records[key] = _OfPartition()
                of_partition.add(record)
                self.open += 1
        if full:
            span.end()
            log_limited(
                _log, logging.WARNING, "open", "%d sampled records are open, so others are not traced; sample fewer of them", MOST_OPEN
            )  # fmt: skip
            return None
        return record

    def between(
        self, seen: dict[Key, Position], mark: Mapping[Key, Position], *, note: bool
    ) -> tuple[SampledRecord, ...]:
        """Return the open records after the positions `seen` and up to a mark. `note`: raise `seen` to the mark."""
        found: list[SampledRecord] = []
        for key, place in mark.items():
            before = seen.get(key, BEFORE)
            if place <= before or self._newest.get(key, BEFORE) <= before:
                continue  # no sampled record lies there, as nearly always
            if key not in self._records:
                continue  # they are done
            with self._lock:
                records = self._records.get(key)
                if records is not None:
                    found += records.between(before, place)
                    if note:
                        seen[key] = place
        return tuple(found)

    def note(self, seen: dict[Key, Position], mark: Mapping[Key, Position]) -> None:
        """Raise the positions `seen` to a mark, as `between` does."""
        for key, place in mark.items():
            if place > seen.get(key, BEFORE) and key in self._records:
                seen[key] = place

    def begun_at(self, passed: Mapping[Key, Position]) -> SampledRecord | None:
        """Return the open record right before which the last of these marks stands; None if there is none, or several."""
        places = [(key, place) for key, place in passed.items() if self._newest.get(key, BEFORE) > place]
        if not places:
            return None
        with self._lock:
            found = []
            for key, place in places:
                records = self._records.get(key)
                at = bisect_right(records.places, place) if records is not None else 0
                if records is not None and at < len(records.places) and records.records[at].start == place:
                    found.append(records.records[at])
        return found[0] if len(found) == 1 else None

    def done(self, moved: Mapping[Key, Position]) -> None:
        """Everything before these positions is done at every sink."""
        if not self.open:
            return
        over: list[SampledRecord] = []
        with self._lock:
            for key, place in moved.items():
                records = self._records.get(key)
                if records is None:
                    continue
                over += records.take(bisect_right(records.places, place))
                if not records.places:
                    del self._records[key]
            self.open -= len(over)
        for record in over:
            record.end()

    def take_out(self, record: SampledRecord) -> None:
        """A record is over for another reason."""
        with self._lock:
            records = self._records.get(record.key)
            if records is not None and records.remove(record):
                self.open -= 1

    def failed(self, error: BaseException) -> None:
        """A stage of the run has failed; the first failure is what open records are told at the end."""
        if self._failure is None:
            self._failure = error

    def ended(self) -> None:
        """The run has ended: no record stays open."""
        with self._lock:
            self._ended = True
            left = [record for of_partition in self._records.values() for record in of_partition.records]
            self._records.clear()
            self.open = 0
        for record in left:
            if self._failure is None:
                record.end()
            else:
                record.failed(self._failure, itself=False)
