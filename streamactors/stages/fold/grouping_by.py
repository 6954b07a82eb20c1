"""Operators that emit lists cut by the elements: grouped_weighted, grouped_adjacent_by, grouped_adjacent_by_weighted.

A mark waits after the list that has the elements before it. All of them remember the elements of the list being filled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Mark
from streamactors.engine.stage import In, Stage
from streamactors.engine.supervision import failure_of
from streamactors.errors import BuildError
from streamactors.stages.bases.emitting import EmittingLogic, keep
from streamactors.stages.checks import plain_function

A_SLICE: Final = 64
"""Elements taken at a time while no mark waits; each closes at most one list."""

_NOTHING: Any = object()


class GroupedWeighted(Stage[In, list[In]]):
    """The stage of `Source.grouped_weighted`."""

    handling = BLURS_MEMORY

    def __init__(self, min_weight: float, cost: Callable[[Any], float]) -> None:
        self.weight = weight("grouped_weighted", "min_weight", min_weight)
        self.fn = plain_function("grouped_weighted", cost)


class GroupedAdjacentBy(Stage[In, list[In]]):
    """The stage of `Source.grouped_adjacent_by`."""

    handling = BLURS_MEMORY

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self.fn = plain_function("grouped_adjacent_by", key)


class GroupedAdjacentByWeighted(Stage[In, list[In]]):
    """The stage of `Source.grouped_adjacent_by_weighted`."""

    handling = BLURS_MEMORY

    def __init__(self, key: Callable[[Any], Any], max_weight: float, cost: Callable[[Any], float]) -> None:
        self.fn = plain_function("grouped_adjacent_by_weighted", key)
        self.weight = weight("grouped_adjacent_by_weighted", "max_weight", max_weight)
        self.cost = plain_function("grouped_adjacent_by_weighted", cost)


def weight(operator: str, name: str, value: float) -> float:
    """Return `value` if it is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise BuildError(f"{operator}: {name} must be a number above 0, got {value!r}")
    return value


def cost_of(operator: str, cost: Callable[[Any], float], element: Any) -> float:
    """Return the weight of an element. Raises TypeError or ValueError when the function gives no number of at least 0."""
    found = cost(element)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TypeError(f"{operator}: cost must return a number, got {found!r}")
    if not found >= 0:
        raise ValueError(f"{operator}: cost must be at least 0, got {found!r}")
    return found


class GroupLogic(EmittingLogic):
    """Base: `add` puts an element into the list being filled, and returns the list that this closes, if any."""

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._group: list[Any] = []
        self._held: list[Mark] = []  # after the list being filled

    @abstractmethod
    def add(self, element: Any) -> list[Any] | None:
        """Take an element; return a list that is complete."""

    def clear(self) -> None:
        """Forget the list being filled."""
        self._group = []

    def ask(self, asked: int) -> None:
        self.in_.want(asked if self._held else max(asked, A_SLICE))

    def on_push(self, in_: Connection) -> None:
        asked = self.out.asked
        groups: list[list[Any]] = []
        failure: BaseException | None = None
        for element in in_.grab(asked if self._held else max(asked, A_SLICE)):
            try:
                group = self.add(element)
            except BaseException as error:  # noqa: BLE001  # the user's function
                failure = failure_of(self, error, element, self.stage.fn, self.clear)
                if failure is not None:
                    break
                continue
            if group is not None:
                groups.append(group)
        if groups and self._held:
            self.push(groups[:1])
            for mark in self._held:
                self.out.mark(mark)
            self._held.clear()
            del groups[0]
        self.emit(groups)
        if failure is not None:
            self.fail_stage(failure)
        elif self._waiting is None and self.out.asked:
            self.ask(self.out.asked)

    def push(self, groups: list[Any]) -> None:
        """Push lists for which there is demand."""
        self.out.push(groups)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._group:
            keep(self._held, mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self.emit_and_end([self._group] if self._group else [], self._held)

    def snapshot_state(self) -> str:
        return super().snapshot_state() or f"{len(self._group)} elements"


@logic_of(GroupedWeighted)
class _WeightedLogic(GroupLogic):
    _weight = 0.0

    def add(self, element: Any) -> list[Any] | None:
        self._weight += cost_of(self.name, self.stage.fn, element)
        self._group.append(element)
        if self._weight < self.stage.weight:
            return None
        closed = self._group
        self.clear()
        return closed

    def clear(self) -> None:
        self._group, self._weight = [], 0.0


@logic_of(GroupedAdjacentBy)
class _AdjacentLogic(GroupLogic):
    _key = _NOTHING

    def add(self, element: Any) -> list[Any] | None:
        return self.join(element, self.stage.fn(element), fits=True)

    def join(self, element: Any, key: Any, *, fits: bool) -> list[Any] | None:
        """Add the element to the list of its like if it `fits`, else into a new list; return the list that this closes."""
        if fits and self._group and key == self._key:
            self._group.append(element)
            return None
        closed, self._group, self._key = self._group, [element], key
        return closed or None


@logic_of(GroupedAdjacentByWeighted)
class _AdjacentWeightedLogic(_AdjacentLogic):
    _weight = 0.0

    def add(self, element: Any) -> list[Any] | None:
        stage = self.stage
        key, cost = stage.fn(element), cost_of(self.name, stage.cost, element)
        closed = self.join(element, key, fits=self._weight + cost <= stage.weight)
        self._weight = cost if len(self._group) == 1 else self._weight + cost
        return closed
