"""Marks: they travel between the elements and state which input is covered so far.

A position mark is a dict {(source, partition): (epoch, position)}. It says that everything that stems from elements of this partition before
this position has passed here, or was dropped on purpose. Lifecycle signals are objects of the classes below. Marks keep their place between
the elements and need no demand. Modelled on the progress tracking of timely dataflow."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

Key: TypeAlias = tuple[Any, Any]  # (source, partition)
Position: TypeAlias = tuple[int, int]  # (epoch, position); compared in that order
PositionMark: TypeAlias = dict[Key, Position]

NOWHERE: Final[Position] = (0, -1)
"""Before every position."""


class EndPosition(tuple[int, int]):
    """The position of a partition's end, where only offsets without records lie after the last element. It equals the plain position.

    `after`: the position after the last element; None if there was none. So a reader tells an end from elements that were filtered away."""

    after: Position | None

    def __new__(cls, position: Position, after: Position | None = None) -> Self:
        end = super().__new__(cls, position)
        end.after = after
        return end


_epochs = itertools.count(1)


def next_epoch() -> int:
    """Return the next epoch of this process; a later assignment of a partition has the larger one."""
    return next(_epochs)


@dataclass(frozen=True, slots=True)
class Signal:
    """Base of the lifecycle signals of one partition; never merged, never dropped."""

    key: Key


@dataclass(frozen=True, slots=True)
class Assigned(Signal):
    """The partition is assigned to this run; its first element has this position."""

    epoch: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class Revoked(Signal):
    """No more elements of the partition will follow."""

    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Idle(Signal):
    """The partition's end is reached, there is demand, and no element came for `silent_ms`."""

    silent_ms: int = 0
    wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class EndOfInput(Signal):
    """The source has ended; the partition has no further element."""


Mark: TypeAlias = PositionMark | Signal


@dataclass(frozen=True, slots=True)
class TimerResults:
    """In the marks of a stage whose timers emit results that stem from no element: takes the place of a source. The position counts the marks."""

    stage: int


def merge_newer(into: PositionMark, newer: PositionMark) -> None:
    """Raise the positions of `into` to those of `newer`, key by key."""
    for key, position in newer.items():
        known = into.get(key)
        if known is None or position > known:
            into[key] = position


def is_behind(at: PositionMark, target: PositionMark, carried: Container[Any]) -> bool:
    """Return whether `at` lacks a position of `target`; only the sources `carried` count."""
    return any(at.get(key, NOWHERE) < place for key, place in target.items() if key[0] in carried)


@dataclass(frozen=True, slots=True)
class Handling:
    """How a stage treats marks."""

    passes: bool
    """A mark leaves the stage when everything derived from earlier elements has left it."""
    exact: bool
    """Nothing derived from later elements leaves the stage before the mark."""
    remembers: bool
    """Results depend on earlier elements, so a run that starts at a mark gives other results."""


OPAQUE = Handling(passes=False, exact=False, remembers=True)
EXACT = Handling(passes=True, exact=True, remembers=False)
EXACT_MEMORY = Handling(passes=True, exact=True, remembers=True)
BLURS = Handling(passes=True, exact=False, remembers=False)
BLURS_MEMORY = Handling(passes=True, exact=False, remembers=True)


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a reader of marks on every stage between it and the sources.

    `replays`: the reader reads ranges again, so every source must be replayable.
    `if_from`: the needs hold only if a source for which this is true lies upstream.
    `instead`: another way out for a stage that remembers, for the error."""

    reader: str
    exact: bool = False
    no_memory: bool = False
    replays: bool = False
    if_from: Callable[[Any], bool] | None = None
    instead: str = ""


class Epochs:
    """The marks of a stage whose elements leave in another order: a mark passes when all elements that entered before it have left."""

    __slots__ = ("_counts", "_first", "_marks")

    def __init__(self) -> None:
        self._first = 0  # number of the oldest epoch
        self._counts: deque[int] = deque([0])  # elements inside, per epoch
        self._marks: deque[Mark] = deque()  # the mark that ends each epoch but the last

    def enter(self) -> int:
        """An element has entered; return the token to pass to `leave`."""
        self._counts[-1] += 1
        return self._first + len(self._counts) - 1

    def leave(self, token: int) -> list[Mark]:
        """An element has left and will not come back; return the marks that pass now. A token from before `all` is ignored."""
        if token < self._first:
            return []
        self._counts[token - self._first] -= 1
        return self._ripe()

    def mark(self, mark: Mark) -> list[Mark]:
        """A mark has arrived; return the marks that pass now."""
        self._marks.append(mark)
        self._counts.append(0)
        return self._ripe()

    def all(self) -> list[Mark]:
        """Remove every mark and return them in order. Elements that are still inside no longer count, even when they leave later."""
        ripe = list(self._marks)
        self._first += len(self._counts)
        self._marks.clear()
        self._counts = deque([0])
        return ripe

    def _ripe(self) -> list[Mark]:
        ripe: list[Mark] = []
        while self._marks and not self._counts[0]:
            self._counts.popleft()
            self._first += 1
            ripe.append(self._marks.popleft())
        return ripe


class FanInMarks:
    """The marks of a fan-in: the position of a key is the minimum over the open inlets that can carry it. A signal passes when it has
    arrived at all these inlets, an `Assigned` when it has arrived at the first of them.

    `carriers[i]` is the set of sources whose marks can reach inlet i."""

    __slots__ = ("_carriers", "_emitted", "_seen", "_signals")

    def __init__(self, carriers: Iterable[frozenset[Any]]) -> None:
        self._carriers: dict[int, frozenset[Any]] = dict(enumerate(carriers))
        self._seen: dict[int, PositionMark] = {inlet: {} for inlet in self._carriers}
        self._emitted: PositionMark = {}
        self._signals: dict[Signal, set[int]] = {}

    def on_mark(self, inlet: int, mark: Mark) -> list[Mark]:
        """Take a mark that arrived at `inlet`; return the marks that pass now."""
        if isinstance(mark, dict):
            merge_newer(self._seen[inlet], mark)
            return self._advance(mark.keys())
        first = mark not in self._signals
        self._signals.setdefault(mark, set()).add(inlet)
        ripe = self._ripe_signals()
        return [mark] if first and isinstance(mark, Assigned) else ripe

    def on_inlet_closed(self, inlet: int) -> list[Mark]:
        """An inlet has ended and no longer holds marks back; return the marks that pass now."""
        self._carriers.pop(inlet, None)
        gone = self._seen.pop(inlet, {})
        keys = set(gone).union(*self._seen.values()) if self._seen else set(gone)
        if not self._carriers:
            # the last inlet has ended: its positions are the result
            rest = {key: position for key, position in gone.items() if position > self._emitted.get(key, NOWHERE)}
            self._emitted.update(rest)
            return [rest] if rest else []
        return self._advance(keys, gone) + self._ripe_signals()

    def _advance(self, keys: Iterable[Key], gone: PositionMark | None = None) -> list[Mark]:
        moved: PositionMark = {}
        for key in list(keys):
            low: Position | None = None
            for inlet, sources in self._carriers.items():
                if key[0] not in sources:
                    continue
                position = self._seen[inlet].get(key)
                if position is None:
                    low = None
                    break
                if low is None or position < low:
                    low = position
            else:
                if low is None and gone is not None:
                    low = gone.get(key)  # no open inlet carries it any more
            if low is not None and low > self._emitted.get(key, NOWHERE):
                self._emitted[key] = moved[key] = low
        return [moved] if moved else []

    def _ripe_signals(self) -> list[Mark]:
        ripe: list[Mark] = []
        for signal, seen in list(self._signals.items()):
            if not {i for i, sources in self._carriers.items() if signal.key[0] in sources} - seen:
                del self._signals[signal]
                if not isinstance(signal, Assigned):  # an Assigned has passed when the first inlet had it
                    ripe.append(signal)
        return ripe
