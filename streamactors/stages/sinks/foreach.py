"""Sinks that call a user function with each element: foreach, fold, reduce.

Slices follow the clock (engine/island/pace.py): a slow function does not keep other stages of its island waiting, and demand is at most
about half a second of its work. Marks: done by foreach when its function has returned, by fold and reduce only at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.coroutine_results import RefusingCoroutines
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import logic_of
from streamactors.engine.sink import SinkLogic
from streamactors.engine.supervision import failure_of
from streamactors.engine.zero import fresh
from streamactors.errors import NoSuchElement
from streamactors.stages.asynchronous.map_async import MapAsyncUnordered
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks.values import SinkStage

_NOTHING: Any = object()


class ElementwiseSinkLogic(SinkLogic):
    """Base. Subclasses override `loop`, and `restart` if they have a state."""

    fn: Callable[..., Any]

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.fn = RefusingCoroutines(stage.fn, stage.label)

    def loop(self, feed: Any, out: list[Any], stop: list[int]) -> None:
        """Consume elements of `feed`; return when `stop` is not empty. `out` stays empty."""
        raise NotImplementedError  # pragma: no cover

    def restart(self) -> None:
        """Go back to the first state: the decider's directive is restart."""

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.in_.want(self._pace.window)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        failure = pace.run(in_, pace.limit, self.loop, [], self._after)
        pace.give_back(in_)
        if failure is None:
            if type(self.fn) is RefusingCoroutines and self.fn.passed:
                self.fn = self.stage.fn
            pace.ask(in_, pace.window, True)
        else:
            self.fail_stage(failure)

    def _after(self, error: BaseException, element: Any, _: list[Any]) -> BaseException | None:
        return failure_of(self, error, element, self.stage.fn, self.restart)


class Foreach(SinkStage):
    """The stage of `Sink.foreach`."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = plain_function("foreach", fn, "foreach_async")


@logic_of(Foreach)
class _ForeachLogic(ElementwiseSinkLogic):
    def loop(self, feed: Any, out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        for element in feed:
            fn(element)
            if stop:
                return


class ForeachAsync(MapAsyncUnordered[Any, Any]):
    """The stage of `Sink.foreach_async`."""

    name = "foreach_async"


class Fold(SinkStage):
    """The stage of `Sink.fold`."""

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        self.zero = zero
        self.fn = plain_function("fold", fn)


@logic_of(Fold)
class _FoldLogic(ElementwiseSinkLogic):
    done_at_end = True

    def __init__(self, stage: Fold | Reduce) -> None:
        super().__init__(stage)
        self.restart()

    def restart(self) -> None:
        self._value = fresh(self.stage.zero)

    def loop(self, feed: Any, out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        value = self._value
        try:
            for element in feed:
                value = fn(value, element)
                if stop:
                    return
        finally:
            self._value = value

    def result(self) -> Any:
        return self._value


class Reduce(SinkStage):
    """The stage of `Sink.reduce`."""

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        self.fn = plain_function("reduce", fn)


@logic_of(Reduce)
class _ReduceLogic(_FoldLogic):
    def restart(self) -> None:
        self._value = _NOTHING

    def loop(self, feed: Any, out: list[Any], stop: list[int]) -> None:
        if self._value is _NOTHING:
            self._value = next(feed)
            if stop:
                return
        super().loop(feed, out, stop)

    def on_complete(self, in_: Connection) -> None:
        if self._value is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; fold returns its zero instead"))
        else:
            self.succeed(self._value)
