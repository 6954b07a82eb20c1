"""The held rows of tasks with several inputs, whose rows are taken in the order of timestamps, and the positions they have passed.

Rows of a task with one input are not held. A row belongs to the input that its context names; a row whose context names none is not held.

Owner: the windowed stage; pure, the time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from streamactors.engine.marks.marks import Assigned, Key, Position, PositionMark, Signal
from streamactors.windows.operators.task_ids import TaskIds, partition_of
from streamactors.windows.stage.head_time import MOST_ROWS, HeadTimeOrder


class OrderedInputs:
    """The held rows of each task with several inputs; false while there is none. Undocumented methods delegate to the task's HeadTimeOrder."""

    def __init__(self, max_idle_ms: float | None, ids: TaskIds) -> None:
        self._task_of = ids.of_input
        self._max_idle_ms = max_idle_ms
        self.orders: dict[Any, HeadTimeOrder] = {}  # by task
        self._key_of: dict[tuple[str, int], Key] = {}  # by topic and partition
        self._epochs: dict[Key, int] = {}
        self._twice: set[Any] = set()  # tasks that read one topic by two sources: their rows are not held

    def __bool__(self) -> bool:
        return bool(self.orders)

    def __contains__(self, key: Key) -> bool:
        order = self.orders.get(self._task_of(key[1]))
        return order is not None and key in order

    @property
    def size(self) -> int:
        """Number of rows held."""
        return sum(order.size for order in self.orders.values())

    @staticmethod
    def is_second(key: Key, inputs: Iterable[Key]) -> bool:
        """True if another source reads the topic of an input too: a row's context does not say which of the two it came from."""
        return any(each != key and _topic_of(each) == _topic_of(key) for each in inputs)

    def assigned(
        self, signal: Assigned, inputs: Iterable[Key], positions: PositionMark, most_rows: int = MOST_ROWS
    ) -> None:
        """An input joins those of its task (`inputs`, itself among them); `positions` were passed before."""
        key = signal.key
        self._epochs[key] = signal.epoch
        number = self._task_of(key[1])
        if number in self._twice or _topic_of(key) is None:
            return
        if self.is_second(key, inputs):
            self._twice.add(number)
            self.orders.pop(number, None)
            return
        by_topic = {topic: each for each in sorted(inputs, key=str) if (topic := _topic_of(each)) is not None}
        order = self.orders.get(number)
        if order is not None:
            order.begin(key, signal.epoch)
        elif len(by_topic) > 1:
            order = self.orders[number] = HeadTimeOrder((), self._max_idle_ms, most_rows)
            for each in by_topic.values():
                order.begin(each, self._epochs.get(each, 0), None if each == key else positions.get(each))
        else:
            return
        self._key_of |= {(topic, partition_of(number)): each for topic, each in by_topic.items()}

    def revoked(self, key: Key, task_gone: bool) -> None:
        """An input was revoked: drop its held rows."""
        number = self._task_of(key[1])
        order = self.orders.get(number)
        if order is not None:
            order.remove(key)
            if task_gone:
                del self.orders[number]
        if task_gone:
            self._twice.discard(number)

    def leave(self, key: Key) -> None:
        """An input is about to be revoked: its task takes no rows until then."""
        if key in self:
            self.orders[self._task_of(key[1])].leave(key)

    def taken_to(self, key: Key) -> Position:
        """Return the position up to which an input was taken."""
        return self.orders[self._task_of(key[1])].taken_to(key)

    def give_up(self, key: Key) -> Position | None:
        """Drop the held rows of an input; return the position from which they must be read again, None if it is not known."""
        return self.orders[self._task_of(key[1])].give_up(key) if key in self else None

    @property
    def keys(self) -> list[Key]:
        """The inputs whose rows are held."""
        return [key for key in self._key_of.values() if key in self]

    def hold(self, rows: Sequence[Any]) -> list[Any]:
        """Hold rows; return those of other inputs."""
        rest: list[Any] = []
        for context, run in groupby(rows, key=_input_of):
            key = self._key_of.get(context) if context is not None else None
            if key is None or key not in self:
                rest.extend(run)
            else:
                self.orders[self._task_of(key[1])].add(key, list(run))
        return rest

    def mark(self, key: Key, what: Position | Signal) -> None:
        """A position or a signal of an input, after its rows so far."""
        self.orders[self._task_of(key[1])].mark(key, what)

    def silent(self, key: Key) -> None:
        """An input has no rows for now."""
        self.orders[self._task_of(key[1])].silent(key)

    def not_asked(self) -> None:
        """Downstream has no demand, so the time of waiting for inputs does not run."""
        for order in self.orders.values():
            order.not_asked()

    def end(self, key: Key) -> None:
        """An input has ended."""
        self.orders[self._task_of(key[1])].end(key)

    def take(self, now_ms: float, most: int, *, wait: bool = True) -> list[Any]:
        """Take up to `most` rows of one task whose turn has come."""
        for order in self.orders.values():
            if order.size:
                rows = order.take(now_ms, most, wait=wait)
                if rows:
                    return rows
        return []

    def take_all(self, key: Key) -> list[Any]:
        """Take all rows of the task that an input belongs to, in their order."""
        order = self.orders.get(self._task_of(key[1]))
        return [] if order is None else order.take(0, wait=False)

    def take_before(self, target: PositionMark, most: int, *, wait: bool = True) -> list[Any]:
        """Take up to `most` rows of one task before `target`; with `wait`, the call waits for rows that are on their way."""
        for order in self.orders.values():
            rows = order.take_before(target, most, wait=wait)
            if rows:
                return rows
        return []

    def holds_before(self, target: PositionMark) -> bool:
        """True if a row before `target` is held."""
        return any(order.holds_before(target) for order in self.orders.values())

    def far_ahead(self, before: frozenset[Key]) -> frozenset[Key]:
        """Return the inputs to pause, because many of their rows are held."""
        return frozenset(key for order in self.orders.values() for key in order.far_ahead(before))

    def waits_for(self) -> list[Key]:
        """Return the inputs that rows of other inputs wait for."""
        return [key for order in self.orders.values() for key in order.waits_for()]

    def pass_marks(self, target: PositionMark) -> list[Signal]:
        """Remove and return the signals that have no held row in front of them."""
        return [signal for order in self.orders.values() for signal in order.pass_marks(target)]

    def positions(self) -> PositionMark | None:
        """Return the position of every input; None while one of them is within a record."""
        found: PositionMark = {}
        for order in self.orders.values():
            positions = order.positions()
            if positions is None:
                return None
            found |= positions
        return found

    def deadline_ms(self) -> float | None:
        """Return when `take` must be called again even if no row was added; None if no input is waited for."""
        return min((at for order in self.orders.values() if (at := order.deadline_ms()) is not None), default=None)


def _topic_of(key: Key) -> str | None:
    return getattr(key[1], "topic", None)


def _input_of(row: Any) -> tuple[str, int] | None:
    context = getattr(row, "context", None)
    return None if context is None else (context.topic, context.partition)
