"""Rows of several inputs of one task in one order: the smallest head timestamp goes first.

Owner: a task with several input topics; pure, time is given. The rule is Kafka's max.task.idle.ms. An input that has
nothing ready is waited for, because its next row may be the oldest: until it has one, or is told to have no more for now
(`silent`), and then for `max_idle_ms` longer. What is on its way comes or is told not to, so nothing but `silent` begins
that time. An input whose rows are all filtered away before they come here shows that by positions without rows: each of
them lets go what was held when it came. Among equal timestamps the first input goes first.

What is behind a row (position marks, signals) stays behind it. Where an input stands between two rows of a chunk is told
by the offset of the row that comes next: everything before it is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from streamactors.engine.marks import Position, Signal

MOST_ROWS: Final = 10_000
"""Rows a task holds where nobody can be told to hold an input back; with more of them an empty one is not waited for."""

FAR_AHEAD: Final = 5_000
"""Rows held of an input that is to be held back; half of them: no longer."""

NO_LIMIT: Final = 1 << 62
NOWHERE: Final[Position] = (0, -1)


class _Input:
    __slots__ = (
        "added",
        "behind",
        "chunk",
        "ended",
        "epoch",
        "given_up",
        "marked",
        "offset",
        "place",
        "rows",
        "silent",
        "silent_since_ms",
        "taken",
        "told",
        "turned",
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
        self.silent = self.ended = self.turned = self.given_up = False
        self.silent_since_ms: float | None = None  # since when it is waited for though it is silent

    def pass_marks(self, no_further: Position | None = None) -> list[Signal]:
        """Go over the marks that nothing is in front of; return the signals among them. With `no_further` not over those without
        rows before them, when they are beyond it."""
        signals: list[Signal] = []
        behind = self.behind
        while behind and behind[0][0] <= self.taken:
            before, what = behind[0]
            if no_further is not None and before == self.marked and not isinstance(what, Signal) and what > no_further:
                break
            behind.popleft()
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
    """`inputs` in order of precedence; `max_idle_ms` of None waits for nobody, and nobody is waited for beyond `most_rows`."""

    def __init__(self, inputs: Iterable[Hashable], max_idle_ms: float | None, most_rows: int = MOST_ROWS) -> None:
        self._inputs: dict[Hashable, _Input] = {name: _Input() for name in inputs}
        self._max_idle_ms = max_idle_ms or 0.0
        self._most_rows = most_rows
        self._waits = max_idle_ms is not None
        self._is_exact_between = True  # rows tell where their inputs stand
        self._leaving: set[Hashable] = set()
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
        self._leaving.discard(name)
        if gone is not None:
            self.size -= len(gone.rows)

    def add(self, name: Hashable, rows: Sequence[Any]) -> None:
        """Rows of one input, in its order."""
        if rows and not self._inputs[name].given_up:
            input_ = self._inputs[name]
            input_.rows.extend(rows)
            input_.added += len(rows)
            self.size += len(rows)
            for each in self._inputs.values():
                each.turned = False
            input_.silent = False
            input_.silent_since_ms = None
            input_.chunk = (_offset_of(rows[0]) if input_.chunk is None else input_.chunk[0], _offset_of(rows[-1]))

    def mark(self, name: Hashable, what: Position | Signal) -> None:
        """A position or a signal behind the rows added so far.

        Rows whose offsets do not lie between the positions around them are no records of the input any more (results of
        other windows, say): nothing is known between two of them, so from then on rows go as they come."""
        input_ = self._inputs[name]
        if input_.given_up:
            return
        input_.behind.append((input_.added, what))
        if not isinstance(what, Signal):
            if input_.chunk is None:
                if input_.told is None or what > input_.told:  # its rows were filtered away
                    input_.turned, input_.silent = True, False
            else:
                begin = (input_.epoch, 0) if input_.told is None else input_.told
                first, last = input_.chunk
                if not begin <= (input_.epoch, first) <= (input_.epoch, last) < what:
                    self._waits = self._is_exact_between = False
                input_.chunk = None
            input_.told = what

    def leave(self, name: Hashable) -> None:
        """An input is being taken away: nothing goes in order any more until it is gone."""
        self._leaving.add(name)

    def stand(self, name: Hashable) -> Position:
        """How far an input has been taken: no further than the next position it stands at exactly."""
        input_ = self._inputs[name]
        if input_.taken != input_.marked:
            return input_.epoch, input_.offset + 1
        return (input_.epoch, 0) if input_.place is None else input_.place

    def give_up(self, name: Hashable) -> Position | None:
        """Drop what is held of an input and what still comes of it, to be read again from the position returned.

        None if that is not known, within a record; nothing is dropped then."""
        input_ = self._inputs[name]
        if not self._stands_exactly(input_):
            return None
        position = (input_.epoch, _offset_of(input_.rows[0])) if input_.rows else input_.position
        self.size -= len(input_.rows)
        input_.rows.clear()
        input_.behind.clear()
        input_.place, input_.marked, input_.given_up = position, input_.taken, True
        return position

    def silent(self, name: Hashable) -> None:
        """An input has nothing more for now: it is not waited for until it has rows again."""
        self._inputs[name].silent = True

    def not_asked(self) -> None:
        """Nobody asks for rows: an input that is empty now need not be, so no time runs."""
        for each in self._inputs.values():
            each.silent_since_ms = None

    def end(self, name: Hashable) -> None:
        """An input gives no more rows; what it gave still goes."""
        self._inputs[name].ended = True

    def take(self, now_ms: float, most: int = NO_LIMIT, *, wait: bool = True) -> list[Any]:
        """Up to `most` rows that may go now, in order; all that are held, without `wait`. Call it again at `deadline_ms`
        if nothing is added before."""
        taken: list[Any] = []
        if self._leaving and wait:
            return taken
        wait = wait and self._waits
        for each in self._inputs.values():
            if each.rows:
                each.silent_since_ms = None
        while self.size and len(taken) < most:
            room = most - len(taken)
            if wait and self._must_wait(now_ms):
                room = min(room, self.size - self._most_rows)  # too many are held: the oldest go without waiting
                if room <= 0:
                    break
            self._take_run(taken, room)
        return taken

    def take_before(self, target: Mapping[Any, Position], most: int, *, wait: bool = True) -> list[Any]:
        """Up to `most` of the rows before the positions of `target`, in order. Others have been there, so what an input lacks
        until there is on its way and is waited for, silent or not; nothing is without `wait`, when no more comes."""
        taken: list[Any] = []
        while len(taken) < most and not (wait and self._lacks_any(target)) and (due := self._before(target)):
            _, name = min(due)
            taken.append(self._take_head(name))
        return taken

    def holds_before(self, target: Mapping[Any, Position]) -> bool:
        """True if a row before a position of `target` is held."""
        return bool(self._before(target))

    def _lacks_any(self, target: Mapping[Any, Position]) -> bool:
        """True if the next row of an input may be one before `target`, and is not here yet."""
        return any(
            name in target and not (each.rows or each.given_up) and (each.told or (each.epoch, -1)) < target[name]
            for name, each in self._inputs.items()
        )

    def _before(self, target: Mapping[Any, Position]) -> list[tuple[tuple[int, int], Hashable]]:
        """((timestamp, precedence), input) of the heads that stand before `target`."""
        return [
            ((each.rows[0].timestamp, at), name)
            for at, (name, each) in enumerate(self._inputs.items())
            if each.rows and name in target and (each.epoch, _offset_of(each.rows[0])) < target[name]
        ]

    def _take_head(self, name: Hashable) -> Any:
        input_ = self._inputs[name]
        row = input_.rows.popleft()
        self.size -= 1
        input_.taken += 1
        input_.offset = _offset_of(row)
        return row

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
        input_.offset = _offset_of(taken[-1])

    def deadline_ms(self) -> float | None:
        """When the longest-awaited of the silent inputs is given up; None if none is waited for."""
        if not self.size or not self._waits:
            return None
        waits = [
            each.silent_since_ms + self._max_idle_ms
            for each in self._inputs.values()
            if not each.rows and each.silent and each.silent_since_ms is not None and not each.ended
        ]
        return max(waits, default=None)

    def far_ahead(self, before: Container[Any]) -> list[Any]:
        """The inputs of which too many rows are held; those that were `before` until half of them are gone."""
        least = {True: FAR_AHEAD // 2, False: FAR_AHEAD}
        return [name for name, each in self._inputs.items() if len(each.rows) > least[name in before]]

    def waits_for(self) -> list[Any]:
        """The inputs that have nothing ready while rows of others are held."""
        return [name for name, each in self._inputs.items() if self.size and not each.rows] if self._waits else []

    def pass_marks(self, target: Mapping[Any, Position]) -> list[Signal]:
        """The signals that no row is in front of any more. An input that is being taken away goes on to `target` only."""
        signals: list[Signal] = []
        for name, each in self._inputs.items():
            signals += each.pass_marks(target.get(name, NOWHERE) if name in self._leaving else None)
        return signals

    def positions(self) -> dict[Any, Position] | None:
        """Where each input stands: all before it is taken and nothing else. None while one of them is within a record."""
        if not all(map(self._stands_exactly, self._inputs.values())):
            return None
        return {name: at for name, each in self._inputs.items() if (at := each.position) is not None}

    def _stands_exactly(self, input_: _Input) -> bool:
        return input_.taken == input_.marked or (self._is_exact_between and input_.is_exact)

    def _must_wait(self, now_ms: float) -> bool:
        """True while an empty input is waited for; the waits of all of them begin here."""
        waits = [self._must_wait_for(each, now_ms) for each in self._inputs.values() if not each.rows]
        return any(waits)

    def _must_wait_for(self, input_: _Input, now_ms: float) -> bool:
        if not input_.silent:
            return not (input_.ended or input_.turned)
        if input_.ended or not self._max_idle_ms:
            return False
        if input_.silent_since_ms is None:
            input_.silent_since_ms = now_ms
        return now_ms < input_.silent_since_ms + self._max_idle_ms


def _offset_of(row: Any) -> int:
    context = getattr(row, "context", None)
    return -1 if context is None else int(context.offset)
