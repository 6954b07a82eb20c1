"""The ledger of a run that is measured: it starts journeys at the sources, ends them at the sinks, and keeps the times of each hop.

A source asks its Sampler whether the next chunk gets a stamp. Where a stamp reaches a sink it waits until the sink has done everything before it, as
the sink reports to the run's progress anyway. Then the whole journey is added at once, so the rows always add up.

Owner: the run. Thread-safe: sources, sinks and the consumers that commit report on their own threads."""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.hops.rows import HopRow, ShownRow
from streamactors.engine.hops.stamp import Origin, Path, Stamp
from streamactors.engine.marks.marks import Key, Position, PositionMark

if TYPE_CHECKING:
    from streamactors.clock import Clock
    from streamactors.engine.logic import Logic
    from streamactors.engine.marks.progress import SinkProgress

MOST_ON_THEIR_WAY: Final = 1_000
"""With so many stamps in a run, sources get no more until some have arrived: queues that stand still stay bounded."""
MOST_ROWS: Final = 500
"""Stages that start during the run may have any number of names; the later ones share a row."""
KEPT: Final = 1_000
"""The newest journeys, each with its hops."""
OTHERS: Final = "(other stages)"
COMMIT: Final = "commit"
COMMITTED: Final = "committed"
LAST: Final = 1_000_000
"""The order of a hop after all others."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of one journey, in ms."""

    label: str
    waited_ms: float
    worked_ms: float


@dataclass(frozen=True, slots=True)
class Journey:
    """One journey from a source to a sink. The hops are contiguous: they add up to `ended_ms - began_ms`. Times are of the system's monotonic clock."""

    partition: Any
    position: int
    sink: str
    began_ms: float
    ended_ms: float
    hops: tuple[Hop, ...]
    skewed: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a ledger knows. `hops` are in the order of the longest journey; `ends` are the whole journeys, by sink, and to the commit."""

    hops: tuple[ShownRow, ...]
    ends: tuple[ShownRow, ...]
    begun: int
    on_their_way: int


class Sampler:
    """Chooses the chunks of one source that get a stamp."""

    __slots__ = ("_ledger", "_next_ms")

    def __init__(self, ledger: HopLedger) -> None:
        self._ledger = ledger
        self._next_ms = -math.inf

    def due(self, now_ms: float) -> bool:
        """Return whether the chunk that is pushed now gets a stamp."""
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._ledger.every_ms
        return self._ledger.on_their_way < MOST_ON_THEIR_WAY


class HopLedger:
    """The hops of one run. `every_ms`: how often a source sends a stamp at most."""

    def __init__(self, clock: Clock, progress: SinkProgress, every_ms: float) -> None:
        self.every_ms = every_ms
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self.journeys: deque[Journey] = deque(maxlen=KEPT)
        self.begun = 0
        """Journeys that have begun."""
        self._progress = weakref.ref(progress)
        self._names: dict[str, None] = {}
        self._lock = threading.RLock()  # reentrant: what ends a journey makes rows
        self._numbers = itertools.count(1)
        self._on_their_way: weakref.WeakSet[Origin] = weakref.WeakSet()
        self._samplers: dict[Any, Sampler] = {}
        self._of_stages: weakref.WeakKeyDictionary[Logic, HopRow] = weakref.WeakKeyDictionary()
        self._rows: dict[Hashable, HopRow] = {}
        self._ends: dict[Hashable, HopRow] = {}
        self._pending: dict[object, dict[Key, deque[Stamp]]] = {}
        self._uncommitted: dict[Key, deque[tuple[Position, float, float, bool]]] = {}
        self._committing: set[Any] = set()

    # ── sources ───────────────────────────────────────────────────────────────────────────────────────────────────

    def sampler(self, source: Any, stage: Logic) -> Sampler:
        """Return what chooses the chunks of a source. The sources of its partitions share it."""
        with self._lock:
            self._names[stage.attributes.graph or stage.name] = None
            return self._samplers.setdefault(source, Sampler(self))

    @property
    def name(self) -> str:
        """The name of the graph, else those of its first sources."""
        return ", ".join(list(self._names)[:3])

    def begin(self, key: Key, place: Position, began_ms: float, *, skewed: bool = False) -> Stamp:
        """Begin a journey: return the stamp that follows everything before `place`. Its first hop begins at `began_ms`."""
        with self._lock:
            self.begun += 1
            origin = Origin(self, next(self._numbers), place, began_ms, skewed)
            self._on_their_way.add(origin)
        return Stamp(key, origin, began_ms)

    @property
    def on_their_way(self) -> int:
        """Stamps that have neither arrived nor been dropped on the way."""
        return len(self._on_their_way)

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def row_of(self, stage: Logic) -> HopRow:
        """Return the row of a stage. Equal stages of substreams share one."""
        row = self._of_stages.get(stage)
        if row is None:
            row = self._of_stages[stage] = self._row(self._rows, *_named(stage))
        return row

    def row(self, of: Hashable, label: str) -> HopRow:
        """Return the row of a hop that is no stage; `of` tells hops of one label apart."""
        return self._row(self._rows, (of, label), label)

    def _row(self, rows: dict[Hashable, HopRow], key: Hashable, label: str) -> HopRow:
        with self._lock:
            found = rows.get(key)
            if found is None:
                if len(rows) >= MOST_ROWS:
                    key = label = OTHERS
                found = rows[key] = rows.get(key) or HopRow(label, self.now_ms())
            return found

    # ── sinks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def arrived(self, sink: Logic, stamp: Stamp) -> None:
        """A stamp has come to a sink, after everything before it."""
        progress = self._progress()
        if progress is None or sink not in progress.sinks:
            return
        if sink.last_hop:
            stamp.end_hop(self.row_of(sink), waited=False)
        with self._lock:
            self._pending.setdefault(sink, {}).setdefault(stamp.key, deque(maxlen=MOST_ON_THEIR_WAY)).append(stamp)
        if progress.has_done(sink, stamp.key, stamp.origin.place):
            self.done(sink, {stamp.key: stamp.origin.place})

    def reached(self, sink: Logic, mark: PositionMark, label: str) -> None:
        """A sink that works in several steps has ended one of them for everything before `mark`: the hop `label` ends."""
        with self._lock:
            waiting = self._pending.get(sink)
            if not waiting:
                return
            row = self.row(sink.name, label)
            for key, place in mark.items():
                for stamp in waiting.get(key, ()):
                    if stamp.origin.place > place:
                        break
                    if not self._has(stamp.path, row):
                        stamp.end_hop(row, waited=True)

    @staticmethod
    def _has(path: Path, row: HopRow) -> bool:
        return path is not None and path[1] is row

    def done(self, sink: Any, mark: PositionMark) -> None:
        """A sink has done everything before `mark`."""
        with self._lock:
            waiting = self._pending.get(sink)
            if not waiting:
                return
            for key, place in mark.items():
                stamps = waiting.get(key)
                while stamps and stamps[0].origin.place <= place:
                    stamp = stamps.popleft()
                    if stamp.origin.place[0] == place[0]:  # else of an assignment that is over: the elements come again
                        self._finish(sink, stamp)

    def sink_ended(self, sink: Any) -> None:
        """A sink has completed: it has done everything that came to it."""
        with self._lock:
            for stamps in self._pending.pop(sink, {}).values():
                for stamp in stamps:
                    self._finish(sink, stamp)
            for origin in list(self._on_their_way):
                for stamp in origin.held.pop(sink, []):
                    self._add(sink, stamp)

    def sink_gone(self, sink: object) -> None:
        """A sink has failed, or its part of the graph is started again: what waits there is not done."""
        with self._lock:
            self._pending.pop(sink, None)
            for origin in list(self._on_their_way):
                origin.held.pop(sink, None)

    def _finish(self, sink: Logic, stamp: Stamp) -> None:
        """End a journey; under the lock."""
        last = sink.last_hop
        stamp.end_hop(self.row(sink.name, last) if last else self.row_of(sink), waited=bool(last))
        if stamp.key[0] in self._committing:
            waiting = self._uncommitted.setdefault(stamp.key, deque(maxlen=MOST_ON_THEIR_WAY))
            waiting.append((stamp.origin.place, stamp.origin.began_ms, stamp.since_ms, stamp.origin.skewed))
        if stamp.origin.asked:
            stamp.origin.held.setdefault(sink, []).append(stamp)
        else:
            self._add(sink, stamp)

    def asked(self, origin: Origin) -> None:
        """A source asks when the journey began: stamps that arrive are held until `answered`, or until their sink ends. Any thread."""
        with self._lock:
            origin.asked = True

    def answered(self, origin: Origin, start: Sequence[tuple[HopRow, float]] | None, *, instead_of: int) -> None:
        """A source knows the hops with which a journey began, (row, ms of waiting) each, instead of its first `instead_of` hops; None: it keeps
        those. Any thread. Stamps that have arrived meanwhile end now."""
        with self._lock:
            origin.asked = False
            if start is not None:
                origin.start = start, instead_of
                if not instead_of:
                    origin.began_ms -= sum(ms for _, ms in start)
            for sink, stamps in origin.held.items():
                for stamp in stamps:
                    self._began_earlier(stamp)
                    self._add(sink, stamp)
            origin.held.clear()

    def _began_earlier(self, stamp: Stamp) -> None:
        """The journey of a stamp that waits for its commit began earlier than was known when it arrived; under the lock."""
        waiting, origin = self._uncommitted.get(stamp.key, deque()), stamp.origin
        for number, (place, _, done, skewed) in enumerate(waiting):
            if place == origin.place:
                waiting[number] = place, origin.began_ms, done, skewed

    def _add(self, sink: Logic, stamp: Stamp) -> None:
        """Add the times of a journey that has ended; under the lock."""
        origin, ended = stamp.origin, stamp.since_ms
        hops = []
        path = list(_walked(stamp.path))
        if origin.start is not None:
            start, instead_of = origin.start
            path[:instead_of] = [(row, ms, 0.0) for row, ms in start]
        for order, (row, waited, worked) in enumerate(path):
            row.order = max(row.order, order)
            if origin.skewed and not order:
                row.skewed += 1
            else:
                row.add(waited, worked, ended)
            hops.append(Hop(row.label, waited, worked))
        self._add_end(*_named(sink), ended - origin.began_ms, origin.skewed)
        self.journeys.append(
            Journey(stamp.key[1], origin.place[1], sink.name, origin.began_ms, ended, tuple(hops), origin.skewed)
        )

    def _add_end(self, key: Hashable, label: str, took_ms: float, skewed: bool) -> None:
        end = self._row(self._ends, key, label)
        end.skewed += skewed
        end.add(0.0, took_ms, self.now_ms())

    # ── commits ───────────────────────────────────────────────────────────────────────────────────────────────────

    def commits(self, source: Any) -> None:
        """A source commits what is done: after that its consumer reports `committed`."""
        self._committing.add(source)

    def committed(self, key: Key, place: Position) -> None:
        """The broker has the position of a partition. What was done under an earlier assignment is forgotten."""
        with self._lock:
            waiting = self._uncommitted.get(key)
            now = self.now_ms()
            while waiting and waiting[0][0] <= place:
                (epoch, _), began, done, skewed = waiting.popleft()
                if epoch == place[0]:
                    row = self.row(None, COMMIT)
                    row.order = LAST
                    row.add(now - done, 0.0, now)
                    self._add_end(COMMITTED, COMMITTED, now - began, skewed)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> Reading:
        """Return what is known now. Any thread."""
        with self._lock:
            rows = sorted((row for row in self._rows.values() if row.whole.n or row.skewed), key=lambda row: row.order)
            now = self.now_ms()
            return Reading(
                tuple(row.shown(now) for row in rows),
                tuple(row.shown(now) for row in self._ends.values()),
                self.begun,
                self.on_their_way,
            )


def _named(stage: Logic) -> tuple[Hashable, str]:
    """Return the key of a stage's row, and its label. Stages that are started inside another one come and go: their names tell them apart."""
    if stage.inside_of:
        return (stage.inside_of, stage.name), f"{stage.inside_of}: {stage.name}"
    return id(stage), stage.name


def _walked(path: Path) -> Iterator[tuple[HopRow, float, float]]:
    """Return the hops of a path, oldest first."""
    found: list[tuple[HopRow, float, float]] = []
    while path is not None:
        path, row, waited, worked = path
        found.append((row, waited, worked))
    return reversed(found)
