"""The order of the rows of several inputs of one task: the row with the smallest timestamp at the head of an input is first.

Owner: a task with several input topics. Pure: the caller passes the time. The rule is Kafka's max.task.idle.ms. The order
waits for an empty input, because the next row of that input may be the oldest. The wait ends when the input has a row, or
when the input was reported empty (`silent`) and `max_idle_ms` have passed since. If all rows of an input were filtered away
before, the input has positions without rows: each such position releases the rows that were held when it arrived. The
position of a partition's end with no record before it (`EndPosition`) releases none: the next record may be older. Of rows
with equal timestamps, the row of the first input is first.

Marks and signals stay after the rows before them. Between two rows of a chunk, the offset of the next row is the position
of the input: everything before that offset is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from streamactors.engine.marks.marks import NOWHERE, EndPosition, Position, Signal

MOST_ROWS: Final = 10_000
"""Largest number of rows that a task holds where inputs cannot be paused. With more rows the order does not wait."""

FAR_AHEAD: Final = 5_000
"""An input with more held rows is paused, and resumed when it has half as many."""

NO_LIMIT: Final = 1 << 62


class _Input:
    __slots__ = (
        "added",
        "announced",
        "chunk",
        "ended",
        "epoch",
        "given_up",
        "marked",
        "marks",
        "offset",
        "place",
        "rows",
        "silent",
        "silent_since_ms",
        "taken",
        "turned",
    )

    def __init__(self, epoch: int = 0, place: Position | None = None) -> None:
        self.rows: deque[Any] = deque()
        self.marks: deque[tuple[int, Position | Signal]] = deque()  # (rows added before it, position or signal)
        self.added = self.taken = 0
        self.epoch = epoch
        self.place = place  # of the last mark passed; exact while no row was taken since
        self.marked = 0  # rows before that mark
        self.offset = -1  # of the last row taken
        self.chunk: tuple[int, int] | None = None  # offsets of the first and the last row added since the last mark
        self.announced = place  # the last position added
        self.silent = self.ended = self.turned = self.given_up = False
        self.silent_since_ms: float | None = None  # start of the wait for a silent input

    def pass_marks(self, no_further: Position | None = None) -> list[Signal]:
        """Pass the marks whose rows were all taken; return the signals among them.

        With `no_further`: stop at a later mark that has no rows before it."""
        signals: list[Signal] = []
        marks = self.marks
        while marks and marks[0][0] <= self.taken:
            before, what = marks[0]
            if no_further is not None and before == self.marked and not isinstance(what, Signal) and what > no_further:
                break
            marks.popleft()
            if isinstance(what, Signal):
                signals.append(what)
            else:
                self.place, self.marked = what, before
        return signals

    @property
    def is_exact(self) -> bool:
        """True if the position is known: at a mark, or before a row with a new offset in a marked chunk."""
        return self.taken == self.marked or bool(self.marks and self.rows and _offset_of(self.rows[0]) > self.offset)

    @property
    def position(self) -> Position | None:
        """The position, if `is_exact`; None before the first mark if the start is unknown."""
        return self.place if self.taken == self.marked else (self.epoch, _offset_of(self.rows[0]))


class HeadTimeOrder:
    """`inputs` in order of precedence. With `max_idle_ms` of None, or with more than `most_rows` held, it does not wait."""

    def __init__(self, inputs: Iterable[Hashable], max_idle_ms: float | None, most_rows: int = MOST_ROWS) -> None:
        self._inputs: dict[Hashable, _Input] = {name: _Input() for name in inputs}
        self._max_idle_ms = max_idle_ms or 0.0
        self._most_rows = most_rows
        self._waits = max_idle_ms is not None
        self._is_exact_between = True  # the offsets of rows are positions of their inputs
        self._leaving: set[Hashable] = set()
        self.size = 0  # rows held

    def __contains__(self, name: Hashable) -> bool:
        return name in self._inputs

    def begin(self, name: Hashable, epoch: int, place: Position | None = None) -> None:
        """Add an input, or start it again: its held rows will be read again."""
        self.remove(name)
        self._inputs[name] = _Input(epoch, place)

    def remove(self, name: Hashable) -> None:
        """Remove an input with its held rows, which no position has passed."""
        gone = self._inputs.pop(name, None)
        self._leaving.discard(name)
        if gone is not None:
            self.size -= len(gone.rows)

    def add(self, name: Hashable, rows: Sequence[Any]) -> None:
        """Add rows of one input, in its order."""
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
        """Add a position or a signal after the rows added so far.

        Rows whose offsets do not lie between the positions around them are not records of the input (for example the
        results of other windows). No position between two such rows is known, so from then on the order does not wait."""
        input_ = self._inputs[name]
        if input_.given_up:
            return
        input_.marks.append((input_.added, what))
        if not isinstance(what, Signal):
            if input_.chunk is None:
                # where no record lay, no row was filtered away
                passed = what.after if isinstance(what, EndPosition) else what
                if passed is not None and (input_.announced is None or passed > input_.announced):
                    input_.turned, input_.silent = True, False
            else:
                begin = (input_.epoch, 0) if input_.announced is None else input_.announced
                first, last = input_.chunk
                if not begin <= (input_.epoch, first) <= (input_.epoch, last) < what:
                    self._waits = self._is_exact_between = False
                input_.chunk = None
            input_.announced = what

    def leave(self, name: Hashable) -> None:
        """An input is being revoked: `take` waits until the input is removed."""
        self._leaving.add(name)

    def taken_to(self, name: Hashable) -> Position:
        """Return the position after the last row that was taken from an input, or a later one without rows between."""
        input_ = self._inputs[name]
        if input_.taken != input_.marked:
            return input_.epoch, input_.offset + 1
        return (input_.epoch, 0) if input_.place is None else input_.place

    def give_up(self, name: Hashable) -> Position | None:
        """Drop the held and the later rows of an input, and return the position from which to read them again.

        Return None, and drop nothing, if the position within a record is not known."""
        input_ = self._inputs[name]
        if not self._is_exact(input_):
            return None
        position = (input_.epoch, _offset_of(input_.rows[0])) if input_.rows else input_.position
        self.size -= len(input_.rows)
        input_.rows.clear()
        input_.marks.clear()
        input_.place, input_.marked, input_.given_up = position, input_.taken, True
        return position

    def silent(self, name: Hashable) -> None:
        """The broker has no further rows of an input at the moment."""
        self._inputs[name].silent = True

    def not_asked(self) -> None:
        """There is no demand for rows, so an input may be empty only for that reason: waits start again."""
        for each in self._inputs.values():
            each.silent_since_ms = None

    def end(self, name: Hashable) -> None:
        """An input has ended; its held rows remain."""
        self._inputs[name].ended = True

    def take(self, now_ms: float, most: int = NO_LIMIT, *, wait: bool = True) -> list[Any]:
        """Return up to `most` rows in order: those that need no wait, or without `wait` all. Call it again at `deadline_ms`
        if no row is added before."""
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
                room = min(room, self.size - self._most_rows)  # too many rows are held: the oldest need no wait
                if room <= 0:
                    break
            self._take_run(taken, room)
        return taken

    def take_before(self, target: Mapping[Any, Position], most: int, *, wait: bool = True) -> list[Any]:
        """Return up to `most` of the rows before the positions of `target`, in order.

        Other consumers have reached `target`, so all rows before it exist: the order waits for them even if an input is
        silent. Without `wait` (no further row comes) it does not wait."""
        taken: list[Any] = []
        while len(taken) < most and not (wait and self._lacks_any(target)) and (due := self._before(target)):
            _, name = min(due)
            taken.append(self._take_head(name))
        return taken

    def holds_before(self, target: Mapping[Any, Position]) -> bool:
        """True if a row before a position of `target` is held."""
        return bool(self._before(target))

    def _lacks_any(self, target: Mapping[Any, Position]) -> bool:
        """True if an empty input may still have a row before `target`."""
        return any(
            name in target and not (each.rows or each.given_up) and (each.announced or (each.epoch, -1)) < target[name]
            for name, each in self._inputs.items()
        )

    def _before(self, target: Mapping[Any, Position]) -> list[tuple[tuple[int, int], Hashable]]:
        """Return ((timestamp, precedence), input) of each head before `target`."""
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
        """Take up to `room` rows in order, and stop when an input has no further row: its next row may be older than all others."""
        inputs = [each for each in self._inputs.values() if each.rows]
        if len(inputs) == 2:
            one, other = inputs
            self._take_of_two(one, other, taken, room)
            return
        until = len(taken) + room
        while True:
            heads = sorted((each.rows[0].timestamp, at) for at, each in enumerate(inputs))
            first = heads[0][1]
            rows = inputs[first].rows
            before = len(taken)
            if len(heads) == 1:
                taken.extend(rows.popleft() for _ in range(min(until - before, len(rows))))
            else:
                while rows and len(taken) < until and (rows[0].timestamp, first) < heads[1]:
                    taken.append(rows.popleft())
            self._took(inputs[first], len(taken) - before, taken[-1])
            if not rows or len(taken) == until:
                return

    def _take_of_two(self, one: _Input, other: _Input, taken: list[Any], room: int) -> None:
        """As `_take_run`, for the two inputs of a join, whose rows often alternate."""
        ones, others = one.rows, other.rows
        time, time_of_other = ones[0].timestamp, others[0].timestamp
        last = last_of_other = None
        before = len(taken)
        before_ones = len(ones)
        for _ in range(room):
            if time <= time_of_other:
                last = ones.popleft()
                taken.append(last)
                if not ones:
                    break
                time = ones[0].timestamp
            else:
                last_of_other = others.popleft()
                taken.append(last_of_other)
                if not others:
                    break
                time_of_other = others[0].timestamp
        count = before_ones - len(ones)
        if count:
            self._took(one, count, last)
        if count < len(taken) - before:
            self._took(other, len(taken) - before - count, last_of_other)

    def _took(self, input_: _Input, count: int, last: Any) -> None:
        self.size -= count
        input_.taken += count
        input_.offset = _offset_of(last)

    def deadline_ms(self) -> float | None:
        """Return the time at which the last wait for a silent input ends; None without such a wait."""
        if not self.size or not self._waits:
            return None
        waits = [
            each.silent_since_ms + self._max_idle_ms
            for each in self._inputs.values()
            if not each.rows and each.silent and each.silent_since_ms is not None and not each.ended
        ]
        return max(waits, default=None)

    def far_ahead(self, before: Container[Any]) -> list[Any]:
        """Return the inputs to pause: inputs with too many held rows, and inputs of `before` until half of the rows are gone."""
        least = {True: FAR_AHEAD // 2, False: FAR_AHEAD}
        return [name for name, each in self._inputs.items() if len(each.rows) > least[name in before]]

    def waits_for(self) -> list[Any]:
        """Return the empty inputs while rows of other inputs are held."""
        return [name for name, each in self._inputs.items() if self.size and not each.rows] if self._waits else []

    def pass_marks(self, target: Mapping[Any, Position]) -> list[Signal]:
        """Pass marks of all inputs and return the signals. An input that is being revoked passes marks up to `target` only."""
        signals: list[Signal] = []
        for name, each in self._inputs.items():
            signals += each.pass_marks(target.get(name, NOWHERE) if name in self._leaving else None)
        return signals

    def positions(self) -> dict[Any, Position] | None:
        """Return the position of each input: exactly the rows before it were taken. None while an input is within a record."""
        if not all(map(self._is_exact, self._inputs.values())):
            return None
        return {name: at for name, each in self._inputs.items() if (at := each.position) is not None}

    def _is_exact(self, input_: _Input) -> bool:
        return input_.taken == input_.marked or (self._is_exact_between and input_.is_exact)

    def _must_wait(self, now_ms: float) -> bool:
        """True while the order waits for an empty input. Starts the waits of all silent inputs."""
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
