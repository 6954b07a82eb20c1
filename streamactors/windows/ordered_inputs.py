"""Tasks with several inputs: what is held of them so that rows go by head timestamp, and which positions are passed.

Owner: the windowed stage; pure, time is given. A task with one input is none of this module's business: its rows go as
they come. A row is of the input that its context names; one that names none goes as it comes too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from streamactors.engine.marks import Assigned, Key, Position, PositionMark, Signal
from streamactors.windows.head_time import MOST_ROWS, HeadTimeOrder
from streamactors.windows.tasks import number_of


class OrderedInputs:
    """See the module. False while there is no task of several inputs."""

    def __init__(self, max_idle_ms: float | None) -> None:
        self._max_idle_ms = max_idle_ms
        self._orders: dict[Any, HeadTimeOrder] = {}  # by the number of the task
        self._key_of: dict[tuple[str, int], Key] = {}  # by topic and partition
        self._epochs: dict[Key, int] = {}
        self._twice: set[Any] = set()  # tasks that read a topic twice: their rows go as they come

    def __bool__(self) -> bool:
        return bool(self._orders)

    def __contains__(self, key: Key) -> bool:
        order = self._orders.get(number_of(key[1]))
        return order is not None and key in order

    @property
    def size(self) -> int:
        """Rows held."""
        return sum(order.size for order in self._orders.values())

    @staticmethod
    def is_second(key: Key, inputs: Iterable[Key]) -> bool:
        """True if another source reads the topic of an input too, so that a row does not tell of which one it is."""
        return any(each != key and _topic_of(each) == _topic_of(key) for each in inputs)

    def assigned(
        self, signal: Assigned, inputs: Iterable[Key], positions: PositionMark, most_rows: int = MOST_ROWS
    ) -> None:
        """An input comes to those its task has (`inputs`, itself among them); `positions` were passed before. `most_rows`
        as in HeadTimeOrder."""
        key = signal.key
        self._epochs[key] = signal.epoch
        number = number_of(key[1])
        if number in self._twice or _topic_of(key) is None:
            return
        if self.is_second(key, inputs):
            self._twice.add(number)
            self._orders.pop(number, None)
            return
        by_topic = {topic: each for each in sorted(inputs, key=str) if (topic := _topic_of(each)) is not None}
        order = self._orders.get(number)
        if order is not None:
            order.begin(key, signal.epoch)
        elif len(by_topic) > 1:
            order = self._orders[number] = HeadTimeOrder((), self._max_idle_ms, most_rows)
            for each in by_topic.values():
                order.begin(each, self._epochs.get(each, 0), None if each == key else positions.get(each))
        else:
            return
        self._key_of |= {(topic, number): each for topic, each in by_topic.items()}

    def revoked(self, key: Key, task_gone: bool) -> None:
        """An input is gone, and what is held of it."""
        number = number_of(key[1])
        order = self._orders.get(number)
        if order is not None:
            order.remove(key)
            if task_gone:
                del self._orders[number]
        if task_gone:
            self._twice.discard(number)

    def leave(self, key: Key) -> None:
        """An input is being taken away: its task does nothing more until it is gone."""
        if key in self:
            self._orders[number_of(key[1])].leave(key)

    def stand(self, key: Key) -> Position:
        """How far an input has been taken, as HeadTimeOrder."""
        return self._orders[number_of(key[1])].stand(key)

    def give_up(self, key: Key) -> Position | None:
        """Drop what is held of an input; the position it is to be read again from, as HeadTimeOrder."""
        return self._orders[number_of(key[1])].give_up(key) if key in self else None

    @property
    def keys(self) -> list[Key]:
        """The inputs of tasks that have several."""
        return [key for key in self._key_of.values() if key in self]

    def hold(self, rows: Sequence[Any]) -> list[Any]:
        """Hold rows; return those that are of no input here."""
        rest: list[Any] = []
        for context, run in groupby(rows, key=_input_of):
            key = self._key_of.get(context) if context is not None else None
            if key is None or key not in self:
                rest.extend(run)
            else:
                self._orders[number_of(key[1])].add(key, list(run))
        return rest

    def mark(self, key: Key, what: Position | Signal) -> None:
        """A position or signal of an input."""
        self._orders[number_of(key[1])].mark(key, what)

    def silent(self, key: Key) -> None:
        """An input has nothing more for now."""
        self._orders[number_of(key[1])].silent(key)

    def not_asked(self) -> None:
        """Nobody asks for rows, so no input is waited for."""
        for order in self._orders.values():
            order.not_asked()

    def end(self, key: Key) -> None:
        """An input gives no more."""
        self._orders[number_of(key[1])].end(key)

    def take(self, now_ms: float, most: int, *, wait: bool = True) -> list[Any]:
        """Up to `most` rows that may go now, of one task."""
        for order in self._orders.values():
            if order.size:
                rows = order.take(now_ms, most, wait=wait)
                if rows:
                    return rows
        return []

    def take_before(self, target: PositionMark, most: int, *, wait: bool = True) -> list[Any]:
        """Up to `most` rows that stand before `target`, of one task; with `wait` for those that are on their way here."""
        for order in self._orders.values():
            rows = order.take_before(target, most, wait=wait)
            if rows:
                return rows
        return []

    def holds_before(self, target: PositionMark) -> bool:
        """True if rows before `target` are held."""
        return any(order.holds_before(target) for order in self._orders.values())

    def far_ahead(self, before: frozenset[Key]) -> frozenset[Key]:
        """The inputs to be held back, as HeadTimeOrder.far_ahead."""
        return frozenset(key for order in self._orders.values() for key in order.far_ahead(before))

    def waits_for(self) -> list[Key]:
        """The inputs that rows of others wait for."""
        return [key for order in self._orders.values() for key in order.waits_for()]

    def pass_marks(self, target: PositionMark) -> list[Signal]:
        """The signals that no row is in front of any more, as HeadTimeOrder."""
        return [signal for order in self._orders.values() for signal in order.pass_marks(target)]

    def positions(self) -> PositionMark | None:
        """Where all inputs stand; None while one of them is within a record."""
        found: PositionMark = {}
        for order in self._orders.values():
            positions = order.positions()
            if positions is None:
                return None
            found |= positions
        return found

    def deadline_ms(self) -> float | None:
        """When to call `take` again though nothing was added; None if nobody is waited for."""
        return min((at for order in self._orders.values() if (at := order.deadline_ms()) is not None), default=None)


def _topic_of(key: Key) -> str | None:
    return getattr(key[1], "topic", None)


def _input_of(row: Any) -> tuple[str, int] | None:
    context = getattr(row, "context", None)
    return None if context is None else (context.topic, context.partition)
