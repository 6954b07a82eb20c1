"""ElementwiseLogic: the base of flows that call user code with each element and have at most one result for it.

The loop runs over an iterator of a slice: results made before an exception are pushed before the stage fails, the iterator's length
hint tells which element raised, and a slice that turns slow is cut short (engine/island/pace.py). `StopIteration` out of user code is an error
like any other, because the loops are plain `for` loops: only iterators written in C and generators would swallow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.coroutine_results import RefusingCoroutines
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.supervision import failure_of
from streamactors.stages.bases.emitting import EmittingLogic, End


class ElementwiseLogic(EmittingLogic):
    """Subclasses override `loop`, and `restart` if they have a state. A loop may set `over` and return: the stage then ends so, after
    the results. A loop may set `back` and return: the last `back` elements that it took go back to the inlet."""

    passes_marks = True
    thins = False
    """True when there may be fewer results than elements: upstream is asked again when half has come, not after each result."""
    gathers = False
    """True when there are no results before the end, so that demand does not bound what is taken."""
    fn: Callable[..., Any]
    over: End | None = None
    back = 0

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.fn = stage.fn and RefusingCoroutines(stage.fn, stage.label)

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        """Take elements of `feed`, append results to `out`; return after the current element when `stop` is not empty."""
        raise NotImplementedError  # pragma: no cover

    def restart(self, out: list[Any]) -> None:
        """Go back to the first state: the decider's directive is restart."""

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def ask(self, asked: int) -> None:
        self._pace.ask(self.in_, asked, self.thins)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        pace = self._pace
        results: list[Any] = []
        failure: BaseException | None = None
        feed = pace.take(in_, pace.limit if self.gathers else out.asked)
        try:
            self.loop(feed, results, self.interpreter.stop_slice)
        except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
            failure = pace.resume(self.loop, error, results, self._after)
        if type(self.fn) is RefusingCoroutines and self.fn.passed:
            self.fn = self.stage.fn
        pace.give_back(in_, self.back)
        self.back = 0
        if results:
            out.push(results)
        if failure is not None:
            self.stopped_by(failure)
        elif self.over is not None:
            self.end_with(self.over)
        elif out.asked:
            self.ask(out.asked)

    def _after(self, error: BaseException, element: Any, results: list[Any]) -> BaseException | None:
        return failure_of(self, error, element, self.stage.fn, lambda: self.restart(results))

    def stopped_by(self, failure: BaseException) -> None:
        """User code raised, and the decider's directive is stop."""
        self.fail_stage(failure)
