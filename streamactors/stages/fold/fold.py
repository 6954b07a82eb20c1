"""Operators that carry a state from element to element: scan, fold, reduce, stateful_map.

Marks: scan and stateful_map at once and exactly; fold and reduce after their only result. All of them remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.loop import Op
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT_MEMORY, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame
from streamactors.engine.zero import fresh
from streamactors.errors import NoSuchElement
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.bases.emitting import End, keep
from streamactors.stages.checks import plain_function
from streamactors.stages.transform.mapping import Fusable

_NOTHING: Any = object()


class Scan(Fusable[In, Out]):
    """The stage of `Source.scan`."""

    kind = "scan"
    handling = EXACT_MEMORY

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        super().__init__(plain_function("scan", fn))
        self._zero = zero

    def op(self, attributes: Attributes) -> Op:
        """Return this stage as a step of a loop."""
        return Op(self.kind, self.fn, self.label, attributes, self._zero)


class Fold(Stage[In, Out]):
    """The stage of `Source.fold` and `Source.quantiles`."""

    handling = BLURS_MEMORY

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        self.zero = zero
        self.fn = plain_function("fold", fn)


@logic_of(Fold)
class _FoldLogic(ElementwiseLogic):
    gathers = True
    _value: Any

    def __init__(self, stage: Fold[Any, Any] | Reduce[Any]) -> None:
        super().__init__(stage)
        self._held: list[Mark] = []
        self.restart([])

    def ask(self, asked: int) -> None:
        self._pace.ask(self.in_, self._pace.window, True)

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        value = self._value
        try:
            for element in feed:
                value = fn(value, element)
                if stop:
                    break
        finally:
            self._value = value

    def restart(self, out: list[Any]) -> None:
        self._value = fresh(self.stage.zero)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        keep(self._held, mark)

    def on_complete(self, in_: Connection) -> None:
        self.emit_and_end([self._value], self._held)


class Reduce(Stage[In, In]):
    """The stage of `Source.reduce`."""

    handling = BLURS_MEMORY

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        self.fn = plain_function("reduce", fn)


@logic_of(Reduce)
class _ReduceLogic(_FoldLogic):
    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        if self._value is _NOTHING:
            for self._value in feed:
                break
        super().loop(feed, out, stop)

    def restart(self, out: list[Any]) -> None:
        self._value = _NOTHING

    def on_complete(self, in_: Connection) -> None:
        if self._value is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; fold returns its zero instead"))
        else:
            super().on_complete(in_)


class StatefulMap(Stage[In, Out]):
    """The stage of `Source.accumulate` and `Source.stateful_map`."""

    handling = EXACT_MEMORY
    forgets = (
        "its state at a restart, while the source continues after the committed offsets; "
        "keyed state with a changelog survives: group_by_key().reduce(…) or .aggregate(…) (streamactors docs windows)"
    )

    def __init__(
        self,
        create: Callable[[], Any],
        fn: Callable[[Any, Any], tuple[Any, Any]],
        on_complete: Callable[[Any], Any] | None = None,
    ) -> None:
        self.make = plain_function("stateful_map", create)
        self.fn = plain_function("stateful_map", fn)
        self.on_complete = on_complete if on_complete is None else plain_function("stateful_map", on_complete)


@logic_of(StatefulMap)
class StatefulMapLogic(ElementwiseLogic):
    """Owns the state of a run, from `create` to `on_complete`."""

    _state = _NOTHING

    def on_start(self) -> None:
        super().on_start()
        try:
            self._state = self.stage.make()
        except BaseException as error:
            blame(error, self.name, function=self.stage.make)
            raise

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        state = self._state
        try:
            for element in feed:
                state, result = fn(state, element)
                out.append(result)
                if stop:
                    break
        finally:
            self._state = state

    def _close(self) -> list[Any]:
        """Close the state; return its last result, if there is one."""
        state = self._state
        self._state = _NOTHING
        if state is _NOTHING or self.stage.on_complete is None:
            return []
        try:
            last = self.stage.on_complete(state)
        except BaseException as error:
            blame(error, self.name, function=self.stage.on_complete)
            raise
        return [] if last is None else [last]

    def restart(self, out: list[Any]) -> None:
        out += self._close()
        self._state = self.stage.make()

    def on_complete(self, in_: Connection) -> None:
        self.emit_and_end(self._close())

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._end_with_error(error)

    def stopped_by(self, failure: BaseException) -> None:
        self.in_.cancel(failure)
        self._end_with_error(failure)

    def _end_with_error(self, error: BaseException) -> None:
        try:
            last = self._close()
        except BaseException as worse:
            worse.__cause__ = error
            raise
        end: End = error
        self.emit_and_end(last, end=end)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._close()
        super().on_cancel(out, cause)

    def on_stop(self) -> None:
        self._close()
