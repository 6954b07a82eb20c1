"""Marks: what travels beside the elements and tells how far a run has come.

A position mark is a dict {(source, partition): (epoch, position)} and says: all that stems from this partition before
this position has passed here, or was dropped on purpose. Lifecycle signals are objects of the classes below. Both keep
their place between the elements and need no demand. Modelled on the progress tracking of timely dataflow."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

Key: TypeAlias = tuple[Any, Any]  # (source, partition)
Position: TypeAlias = tuple[int, int]  # (epoch, position); compared in that order
PositionMark: TypeAlias = dict[Key, Position]

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
    """The partition is ours from here on; its first element has this position."""

    epoch: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class Revoked(Signal):
    """No more elements of the partition will follow."""

    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Idle(Signal):
    """The partition's end is reached, there is demand, and nothing came for `silent_ms`."""

    silent_ms: int = 0
    wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class EndOfInput(Signal):
    """The source has come to its own end; the partition has no further element."""


Mark: TypeAlias = PositionMark | Signal


def merge_newer(into: PositionMark, newer: PositionMark) -> None:
    """Raise the positions of `into` to those of `newer`, key by key."""
    for key, position in newer.items():
        known = into.get(key)
        if known is None or position > known:
            into[key] = position


@dataclass(frozen=True, slots=True)
class Handling:
    """What a stage declares about marks.

    passes: a mark comes out once all derived from earlier elements has left.
    exact: and nothing derived from later positions came out before it.
    remembers: results depend on earlier elements, so a run that starts at a mark gives another result."""

    passes: bool
    exact: bool
    remembers: bool


OPAQUE = Handling(passes=False, exact=False, remembers=True)
EXACT = Handling(passes=True, exact=True, remembers=False)
EXACT_MEMORY = Handling(passes=True, exact=True, remembers=True)
BLURS = Handling(passes=True, exact=False, remembers=False)
BLURS_MEMORY = Handling(passes=True, exact=False, remembers=True)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a reader of marks needs of every stage on the way, and which advice it gives where that is missing.

    `replays`: it asks for ranges again, so every source must be one that can be read again.
    `if_from`: it needs all this only if a source that this is true of lies upstream."""

    reader: str
    exact: bool = False
    no_memory: bool = False
    replays: bool = False
    if_from: Callable[[Any], bool] | None = None


class Epochs:
    """Marks of a stage whose elements leave in another order: a mark goes once all that entered before it has left."""

    __slots__ = ("_counts", "_first", "_marks")

    def __init__(self) -> None:
        self._first = 0  # number of the oldest epoch
        self._counts: deque[int] = deque([0])  # elements inside, per epoch
        self._marks: deque[Mark] = deque()  # the mark that ends each epoch but the last

    def enter(self) -> int:
        """An element has come in; return the token to `leave` with."""
        self._counts[-1] += 1
        return self._first + len(self._counts) - 1

    def leave(self, token: int) -> list[Mark]:
        """An element has left for good; return the marks that may go now."""
        self._counts[token - self._first] -= 1
        return self._ripe()

    def mark(self, mark: Mark) -> list[Mark]:
        """A mark has come in; return the marks that may go now."""
        self._marks.append(mark)
        self._counts.append(0)
        return self._ripe()

    def _ripe(self) -> list[Mark]:
        ripe: list[Mark] = []
        while self._marks and not self._counts[0]:
            self._counts.popleft()
            self._first += 1
            ripe.append(self._marks.popleft())
        return ripe


class FanInMarks:
    """The marks of a fan-in: per key the minimum over the open inlets that can carry it.

    `carriers[i]` is the set of sources that can reach inlet i."""

    __slots__ = ("_carriers", "_emitted", "_seen", "_signals")

    def __init__(self, carriers: Iterable[frozenset[Any]]) -> None:
        self._carriers: dict[int, frozenset[Any]] = dict(enumerate(carriers))
        self._seen: dict[int, PositionMark] = {inlet: {} for inlet in self._carriers}
        self._emitted: PositionMark = {}
        self._signals: dict[Signal, set[int]] = {}

    def on_mark(self, inlet: int, mark: Mark) -> list[Mark]:
        """Take a mark that arrived at `inlet`; return the marks that may go on now."""
        if isinstance(mark, dict):
            merge_newer(self._seen[inlet], mark)
            return self._advance(mark.keys())
        if isinstance(mark, Assigned):
            seen = self._signals.setdefault(mark, set())
            seen.add(inlet)
            return [mark] if len(seen) == 1 else []
        self._signals.setdefault(mark, set()).add(inlet)
        return self._ripe_signals()

    def on_inlet_closed(self, inlet: int) -> list[Mark]:
        """An inlet ended: it holds nobody back any more; return what may go on now."""
        self._carriers.pop(inlet, None)
        gone = self._seen.pop(inlet, {})
        keys = set(gone).union(*self._seen.values()) if self._seen else set(gone)
        if not self._carriers:
            # every inlet has ended: what the last one said is the last word
            rest = {key: position for key, position in gone.items() if position > self._emitted.get(key, (0, -1))}
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
            if low is not None and low > self._emitted.get(key, (0, -1)):
                self._emitted[key] = moved[key] = low
        return [moved] if moved else []

    def _ripe_signals(self) -> list[Mark]:
        ripe: list[Mark] = []
        for signal, seen in list(self._signals.items()):
            if isinstance(signal, Assigned):
                continue
            waiting = {i for i, sources in self._carriers.items() if signal.key[0] in sources} - seen
            if not waiting:
                del self._signals[signal]
                ripe.append(signal)
        return ripe
