"""Operators that emit extra results while upstream is silent: expand, extrapolate.

An extra result is made only when the island has nothing else to do, so an upstream in the same island comes first. A mark waits until
the next element has come or the iterator of its element has ended; exact. Remembers: the number of extra results depends on timing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.supervision import failure_of
from streamactors.stages.bases.emitting import keep
from streamactors.stages.checks import plain_function
from streamactors.stages.defaults import NOT_GIVEN


class Expand(Stage[In, Out]):
    """The stage of `Source.expand`."""

    handling = EXACT_MEMORY

    def __init__(self, fn: Callable[[Any], Iterable[Any]]) -> None:
        self.fn = plain_function("expand", fn)
        self.initial: list[Any] = []


class Extrapolate(Expand[In, Out]):
    """The stage of `Source.extrapolate`."""

    def __init__(self, fn: Callable[[Any], Iterable[Any]], initial: Any = NOT_GIVEN) -> None:
        plain_function("extrapolate", fn)
        super().__init__(lambda element: itertools.chain((element,), _later(fn, element)))
        self.initial = [] if initial is NOT_GIVEN else [initial]


def _later(fn: Callable[[Any], Iterable[Any]], element: Any) -> Iterator[Any]:
    """Iterate over `fn(element)`; `fn` is called when its first result is needed."""
    try:
        results = iter(fn(element))
    except StopIteration as error:
        raise _Wrapped(error) from error  # a generator cannot raise StopIteration itself
    yield from results


class _Wrapped(Exception):
    """Carries a StopIteration of user code out of a generator."""

    def __init__(self, error: StopIteration) -> None:
        super().__init__(error)
        self.error = error


@logic_of(Expand)
class _ExpandLogic(FlowLogic):
    def __init__(self, stage: Expand[Any, Any]) -> None:
        super().__init__(stage)
        self._initial = stage.initial
        self._element: Any = None  # the element of the current iterator
        self._current: Iterator[Any] | None = None
        self._held: list[Mark] = []
        self._idle_due = False
        self._completing = False

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.in_.want(1)

    def on_pull(self, out: Connection) -> None:
        if self._initial:
            initial, self._initial = self._initial, []
            self._take(initial)
            if self._completing:
                self.complete_stage()
            return
        self._ask()

    def _ask(self) -> None:
        asked = self.out.asked
        window = self._pace.window
        self.in_.want(max(1, asked if asked < window else window))
        if asked and self._current is not None and not self._idle_due:
            self._idle_due = True
            self.call_when_idle(self._on_idle)

    def _on_idle(self) -> None:
        self._idle_due = False
        if self._current is not None and self.out.can_push:
            self._make_up()
            if self.out.can_push:
                self._ask()

    def on_push(self, in_: Connection) -> None:
        asked = self.out.asked
        if self._initial and asked:
            self.on_pull(self.out)  # demand came together with the element; `on_pull` has the element shown again
            return
        limit = self._pace.limit
        chunk = in_.grab(asked if asked < limit else limit)
        if chunk:
            self._take(chunk)

    def _take(self, chunk: list[Any]) -> None:
        """Emit the first result of each element."""
        results: list[Any] = []
        before = self._current
        stop = self._pace.begin()
        taken = 0
        failure: BaseException | None = None
        for element in chunk:
            taken += 1
            try:
                current = iter(self.stage.fn(element))
                for result in current:
                    results.append(result)
                    self._current = current
                    self._element = element
                    break
                else:
                    self._current = None
            except BaseException as error:  # noqa: BLE001  # the user's function or iterator
                failure = self._after(error, element)
                if failure is not None:
                    break
            if stop:
                break
        self._pace.end(taken)
        if taken < len(chunk) and failure is None:
            self.in_.unread(chunk[taken:])
        if self._current is not before:
            self._pass_marks()
        if results:
            self.out.push(results)
        if failure is not None:
            self.fail_stage(failure)
        else:
            self._ask()

    def _make_up(self) -> None:
        """Emit one more result of the last element."""
        assert self._current is not None
        self._pace.begin()
        try:
            for result in self._current:
                self.out.push([result])
                return
            self._end_iterator()
        except BaseException as error:  # noqa: BLE001  # the user's iterator
            self._end_iterator()
            failure = self._after(error, self._element)
            if failure is not None:
                self.fail_stage(failure)
        finally:
            self._pace.end(1)

    def _end_iterator(self) -> None:
        self._current = None
        self._pass_marks()

    def _after(self, error: BaseException, element: Any) -> BaseException | None:
        return failure_of(self, error.error if isinstance(error, _Wrapped) else error, element, self.stage.fn)

    def _pass_marks(self) -> None:
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._current is None:
            self.out.mark(mark)
        else:
            keep(self._held, mark)

    def on_complete(self, in_: Connection) -> None:
        self._pass_marks()
        self._completing = True
        if not self._initial:
            self.complete_stage()

    def snapshot_state(self) -> str:
        return "" if self._current is None else "makes up results while upstream is silent"
