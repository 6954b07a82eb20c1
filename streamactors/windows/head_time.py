"""Rows of several inputs of one task in one order: the smallest head timestamp goes first.

Owner: a task with several input topics; pure, time is given. An input that has nothing ready is waited for, because its
next row may be the oldest; after `max_idle_ms` without a row it is left out until it has one again (Kafka's
max.task.idle.ms), and at once when it is known to be silent. Among equal timestamps the first input goes first.

What is behind a row (position marks, signals) stays behind it. Where an input stands between two rows of a chunk is told
by the offset of the row that comes next: everything before it is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from streamactors.engine.marks import Position, Signal

MOST_ROWS: Final = 10_000
"""Rows a task holds; with more of them an empty input is not waited for, so that nothing is held without bound."""

NO_LIMIT: Final = 1 << 62


class _Input:
    __slots__ = (
        "added",
        "behind",
        "chunk",
        "empty_since_ms",
        "ended",
        "epoch",
        "marked",
        "offset",
        "place",
        "rows",
        "silent",
        "taken",
        "told",
    )

    def __init__(self, epoch: int = 0, place: Position | None = None) -> None:
        self.rows: deque[Any] = deque()
        self.behind: deque[tuple[int, Position | Signal]] = deque()  # (rows added before it, what)
        self.added = self.taken = 0
        self.epoch = epoch
        self.place = place  # what the last mark passed says; true while no row was taken since
        self.marked = 0  # rows before it
        self.offset = -1  # of the row taken last
        self.chunk: tuple[int, int] | None = None  # offsets of the first and the last row added since the last mark
        self.told = place  # the last position added
        self.silent = self.ended = False
        self.empty_since_ms: float | None = None

    def pass_marks(self) -> list[Signal]:
        """Go over the marks that nothing is in front of; return the signals among them."""
        signals: list[Signal] = []
        behind = self.behind
        while behind and behind[0][0] <= self.taken:
            before, what = behind.popleft()
            if isinstance(what, Signal):
                signals.append(what)
            else:
                self.place, self.marked = what, before
        return signals

    @property
    def is_exact(self) -> bool:
        """True if it is known where the input stands: at a mark, or before a row of a new offset in a marked chunk."""
        return self.taken == self.marked or bool(self.behind and self.rows and _offset_of(self.rows[0]) > self.offset)

    @property
    def position(self) -> Position | None:
        """Where it stands, if `is_exact`; None at a beginning that nobody has told."""
        return self.place if self.taken == self.marked else (self.epoch, _offset_of(self.rows[0]))


class HeadTimeOrder:
    """`inputs` in order of precedence; `max_idle_ms` of 0 waits for nobody, and nobody is waited for beyond `most_rows`."""

    def __init__(self, inputs: Iterable[Hashable], max_idle_ms: float, most_rows: int = MOST_ROWS) -> None:
        self._inputs: dict[Hashable, _Input] = {name: _Input() for name in inputs}
        self._max_idle_ms = max_idle_ms
        self._most_rows = most_rows
        self._waits = True
        self.size = 0  # rows held

    def __contains__(self, name: Hashable) -> bool:
        return name in self._inputs

    def begin(self, name: Hashable, epoch: int, place: Position | None = None) -> None:
        """An input comes, or begins again: what is held of it will come once more."""
        self.remove(name)
        self._inputs[name] = _Input(epoch, place)

    def remove(self, name: Hashable) -> None:
        """An input is gone, with what is held of it: nothing of that has been passed by a position."""
        gone = self._inputs.pop(name, None)
        if gone is not None:
            self.size -= len(gone.rows)

    def add(self, name: Hashable, rows: Sequence[Any]) -> None:
        """Rows of one input, in its order."""
        if rows:
            input_ = self._inputs[name]
            input_.rows.extend(rows)
            input_.added += len(rows)
            self.size += len(rows)
            input_.silent = False
            input_.chunk = (_offset_of(rows[0]) if input_.chunk is None else input_.chunk[0], _offset_of(rows[-1]))

    def mark(self, name: Hashable, what: Position | Signal) -> None:
        """A position or a signal behind the rows added so far.

        Rows whose offsets do not lie between the positions around them are no records of the input any more (results of
        other windows, say): nothing is known between two of them, so from then on rows go as they come."""
        input_ = self._inputs[name]
        input_.behind.append((input_.added, what))
        if not isinstance(what, Signal):
            if input_.chunk is not None:
                begin = (input_.epoch, 0) if input_.told is None else input_.told
                first, last = input_.chunk
                if not begin <= (input_.epoch, first) <= (input_.epoch, last) < what:
                    self._waits = False
                input_.chunk = None
            input_.told = what

    def silent(self, name: Hashable) -> None:
        """An input has nothing more for now: it is not waited for until it has rows again."""
        self._inputs[name].silent = True

    def not_asked(self) -> None:
        """Nobody asks for rows: an input that is empty now need not be."""
        for each in self._inputs.values():
            each.empty_since_ms = None

    def end(self, name: Hashable) -> None:
        """An input gives no more rows; what it gave still goes."""
        self._inputs[name].ended = True

    def take(self, now_ms: float, most: int = NO_LIMIT, *, wait: bool = True) -> list[Any]:
        """Up to `most` rows that may go now, in order; all that are held, without `wait`. Call it again at `deadline_ms`
        if nothing is added before."""
        taken: list[Any] = []
        wait = wait and self._waits
        while self.size and len(taken) < most:
            room = most - len(taken)
            if wait and self._must_wait(now_ms):
                room = min(room, self.size - self._most_rows)  # too many are held: the oldest go without waiting
                if room <= 0:
                    break
            self._take_run(taken, room)
        return taken

    def _take_run(self, taken: list[Any], room: int) -> None:
        """Take rows of the input whose head is the oldest, until another one's is."""
        heads = sorted((each.rows[0].timestamp, at) for at, each in enumerate(self._inputs.values()) if each.rows)
        first = heads[0][1]
        input_ = next(islice(self._inputs.values(), first, None))
        rows = input_.rows
        until = len(taken) + room
        before = len(rows)
        if len(heads) == 1:
            taken.extend(rows.popleft() for _ in range(min(room, before)))
        else:
            following = heads[1]
            while rows and len(taken) < until and (rows[0].timestamp, first) < following:
                taken.append(rows.popleft())
        gone = before - len(rows)
        self.size -= gone
        input_.taken += gone
        input_.empty_since_ms = None
        input_.offset = _offset_of(taken[-1])

    def deadline_ms(self) -> float | None:
        """When the longest-awaited input is given up; None if nobody is waited for."""
        if not self.size or not self._waits:
            return None
        waits = [
            each.empty_since_ms + self._max_idle_ms
            for each in self._inputs.values()
            if not each.rows and each.empty_since_ms is not None and not (each.silent or each.ended)
        ]
        return max(waits, default=None)

    def pass_marks(self) -> list[Signal]:
        """The signals that no row is in front of any more."""
        return [signal for each in self._inputs.values() for signal in each.pass_marks()]

    def positions(self) -> dict[Any, Position] | None:
        """Where each input stands: all before it is taken and nothing else. None while one of them is within a record."""
        if not all(each.taken == each.marked or (self._waits and each.is_exact) for each in self._inputs.values()):
            return None
        return {name: at for name, each in self._inputs.items() if (at := each.position) is not None}

    def _must_wait(self, now_ms: float) -> bool:
        """True while an empty input is waited for; the waits of all of them begin here."""
        waits = [self._must_wait_for(each, now_ms) for each in self._inputs.values() if not each.rows]
        return any(waits)

    def _must_wait_for(self, input_: _Input, now_ms: float) -> bool:
        if input_.silent or input_.ended:
            return False
        if input_.empty_since_ms is None:
            input_.empty_since_ms = now_ms
        return now_ms < input_.empty_since_ms + self._max_idle_ms


def _offset_of(row: Any) -> int:
    context = getattr(row, "context", None)
    return -1 if context is None else int(context.offset)
