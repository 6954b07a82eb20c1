"""Fan-in junctions that decide by the elements which input is next: merge_sorted, merge_sequence, merge_prioritized, zip_all.

Each takes a chunk of every input, uses a part of it, and gives the rest back to the connection, where marks keep their place.
Marks: per partition the minimum over the open inputs that can carry it."""

from __future__ import annotations

import heapq
import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS
from streamactors.engine.stage import Element, Junction, fan_in
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError, StreamError
from streamactors.stages.checks import at_least, plain_function
from streamactors.stages.junctions.fan_in import FanInLogic

NO_INDEX: Final = (
    "merge_sequence found two elements with number {0}, or one that came too late; numbers of an input must rise"
)
A_DRAW: Final = 64
"""The most elements that merge_prioritized draws at a time."""

PATIENCE: Final = 2
"""Turns of the outlet that merge_prioritized waits for inputs that may have elements: between them every other connection has a turn."""


class MergeSorted(Junction[Element, Element]):
    """Merge sorted inputs into one sorted stream. Equal elements keep the order of the inputs."""

    handling = BLURS

    def __init__(self, inputs: int = 2, key: Callable[[Any], Any] | None = None) -> None:
        self.shape = fan_in(at_least("MergeSorted", "inputs", inputs, 1))
        self.key = None if key is None else plain_function("MergeSorted", key)


class MergeSequence(Junction[Element, Element]):
    """Merge inputs whose elements carry the numbers 0, 1, 2, …, each number once, into one stream in the order of the numbers."""

    handling = BLURS

    def __init__(self, inputs: int, number: Callable[[Any], int]) -> None:
        self.shape = fan_in(at_least("MergeSequence", "inputs", inputs, 1))
        self.key = plain_function("MergeSequence", number)


class MergePrioritized(Junction[Element, Element]):
    """Merge inputs. While several have elements, each is taken in proportion to its priority."""

    handling = BLURS

    def __init__(self, priorities: Sequence[int], eager_complete: bool = False) -> None:
        self.priorities = [at_least("MergePrioritized", "priority", priority, 1) for priority in priorities]
        if not self.priorities:
            raise BuildError("MergePrioritized needs at least one priority")
        self.shape = fan_in(len(self.priorities))
        self.eager_complete = eager_complete
        self.traits = StageTraits(ends_with_inputs=not eager_complete)


class ZipAll(Junction[Any, tuple[Any, Any]]):
    """Pair the elements of the inputs into tuples until all have ended; an input that has ended gives its default."""

    handling = BLURS

    def __init__(self, *defaults: Any) -> None:
        self.shape = fan_in(at_least("ZipAll", "inputs", len(defaults), 1))
        self.defaults = defaults


class _ChoosingLogic(FanInLogic):
    """Base: asks every open input for elements, and calls `choose` when it can decide."""

    needs_all = True
    """True when `choose` can decide only while every open input has an element."""
    patience = 0
    """Turns to wait for inputs without elements, when `choose` can decide without them."""
    _waited = 0

    def on_start(self) -> None:
        for inlet in self.inlets:
            inlet.want(1)

    def on_pull(self, out: Connection) -> None:
        self._pump()

    def on_push(self, in_: Connection) -> None:
        self._pump()

    def after_complete(self, in_: Connection) -> None:
        self._pump()

    @abstractmethod
    def choose(self, columns: list[list[Any]], inlets: list[Connection], room: int) -> tuple[list[Any], list[int]]:
        """Return at most `room` results, and how many elements of each column they use."""

    def _pump(self) -> None:
        out = self.out
        masked: list[Connection] = []  # inputs with a mark in front of their elements
        while out.asked:
            inlets = [inlet for inlet in self.inlets if not inlet.in_closed]
            ready = [inlet for inlet in inlets if inlet.ready]
            if not ready or (self.needs_all and len(ready) < len(inlets)):
                break
            if len(ready) < len(inlets) and self._waited < self.patience:
                self._waited += 1
                out.again()
                break
            self._waited = 0
            room = out.asked
            columns = [inlet.grab(room) for inlet in ready]
            masked = [inlet for inlet, column in zip(ready, columns, strict=True) if not column]
            for inlet in masked:  # a mark precedes its elements; it is shown first, and then they are shown again
                inlet.want(max(1, room, inlet.due))
            if masked and (self.needs_all or len(masked) == len(ready)):
                for inlet, column in zip(ready, columns, strict=True):
                    inlet.unread(column)
                break
            ready = [inlet for inlet, column in zip(ready, columns, strict=True) if column]
            columns = [column for column in columns if column]
            failure: BaseException | None = None
            try:
                results, used = self.choose(columns, ready, room)
            except _Failed as failed:
                results, used, failure = failed.results, failed.used, failed.error
            for inlet, column, n in zip(ready, columns, used, strict=True):
                inlet.unread(column[n:])
            if results:
                out.push(results)
            if failure is not None:
                self.fail_stage(failure)
                return
            if not results:
                break
        wanted = max(1, out.asked)
        for inlet in self.inlets:
            if inlet.in_closed:
                continue
            if inlet.ready and inlet not in masked:
                inlet.ask(max(wanted, inlet.due))  # its elements wait for the other inputs, or for demand
            else:
                inlet.want(max(wanted, inlet.due))  # after a mark, elements are shown once the mark was


class _Failed(Exception):
    """`choose` met a failure after some results, which go out first."""

    def __init__(self, error: BaseException, results: list[Any], used: list[int]) -> None:
        super().__init__(str(error))
        self.error, self.results, self.used = error, results, used


@logic_of(MergeSorted)
class _MergeSortedLogic(_ChoosingLogic):
    def choose(self, columns: list[list[Any]], inlets: list[Connection], room: int) -> tuple[list[Any], list[int]]:
        key = self.stage.key
        used = [0] * len(columns)
        results: list[Any] = []
        element: Any = None
        try:
            heap = []
            for index, column in enumerate(columns):
                element = column[0]
                heap.append((element if key is None else key(element), index))
            heapq.heapify(heap)
            while len(results) < room:
                _, index = heap[0]
                column = columns[index]
                at = used[index]
                results.append(column[at])
                used[index] = at = at + 1
                if at == len(column):
                    break  # the next element of this input is not known yet
                element = column[at]
                heapq.heapreplace(heap, (element if key is None else key(element), index))
        except BaseException as error:  # noqa: BLE001  # of a comparison, or of the user's key
            blame(error, self.name, element, key)
            raise _Failed(error, results, used) from None
        return results, used


@logic_of(MergeSequence)
class _MergeSequenceLogic(_ChoosingLogic):
    needs_all = False
    _next = 0

    def choose(self, columns: list[list[Any]], inlets: list[Connection], room: int) -> tuple[list[Any], list[int]]:
        number = self.stage.key
        used = [0] * len(columns)
        results: list[Any] = []
        element: Any = None
        lowest: list[int] = []
        try:
            moved = True
            while moved and len(results) < room:
                moved = False
                lowest = []
                for index, column in enumerate(columns):
                    at = used[index]
                    while at < len(column) and len(results) < room:
                        element = column[at]
                        found = number(element)
                        if found > self._next:
                            lowest.append(found)
                            break
                        if found < self._next:
                            raise StreamError(NO_INDEX.format(found))
                        results.append(element)
                        self._next += 1
                        at += 1
                        moved = True
                    used[index] = at
        except BaseException as error:  # noqa: BLE001  # of the user's function, or a number that came twice
            blame(error, self.name, element, number)
            raise _Failed(error, results, used) from None
        if not results and len(lowest) == self._live:
            gap = StreamError(
                f"{self.name}: element {self._next} is missing, the open inputs continue with {sorted(lowest)}; "
                "every number must occur once"
            )
            raise _Failed(gap, results, used)
        return results, used


@logic_of(MergePrioritized)
class _MergePrioritizedLogic(_ChoosingLogic):
    needs_all = False
    patience = PATIENCE

    def choose(self, columns: list[list[Any]], inlets: list[Connection], room: int) -> tuple[list[Any], list[int]]:
        if len(columns) == 1:
            return columns[0], [len(columns[0])]
        weights = [self.stage.priorities[inlet.in_index] for inlet in inlets]
        used = [0] * len(columns)
        results: list[Any] = []
        for index in random.choices(range(len(columns)), weights, k=min(room, A_DRAW)):
            column = columns[index]
            results.append(column[used[index]])
            used[index] += 1
            if used[index] == len(column):
                break
        return results, used


@logic_of(ZipAll)
class _ZipAllLogic(_ChoosingLogic):
    def choose(self, columns: list[list[Any]], inlets: list[Connection], room: int) -> tuple[list[Any], list[int]]:
        n = min(len(column) for column in columns)
        whole: list[Any] = [[default] * n for default in self.stage.defaults]
        for inlet, column in zip(inlets, columns, strict=True):
            whole[inlet.in_index] = column[:n]
        return list(zip(*whole, strict=True)), [n] * len(columns)
