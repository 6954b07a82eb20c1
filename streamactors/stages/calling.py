"""CallingLogic: the base of flows that call user code with each element and give at most one result for it.

The loop runs over an iterator of a slice: results made before an exception are pushed before the stage fails, the iterator's length
hint tells which element raised, and a slice that turns slow is cut short (engine/pace.py). `StopIteration` out of user code is an error
like any other, because the loops are plain `for` loops: only iterators written in C and generators would swallow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.pace import Pace
from streamactors.engine.supervision import Directive, directive_for
from streamactors.stages.emitting import EmittingLogic, End


class CallingLogic(EmittingLogic):
    """Subclasses override `loop`, and `restart` if they have a state. They may set `over` in the loop and leave it: the stage
    ends like that behind the results. They may set `back` and leave it: so many elements of what the loop took are given back."""

    passes_marks = True
    thins = False
    """True when there may be fewer results than elements: upstream is asked again when half has come, not after each result."""
    gathers = False
    """True when there are no results before the end, so that demand does not bound what is taken."""
    fn: Callable[..., Any]
    over: End | None = None
    back = 0

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        """Take elements of `feed`, append results to `out`; leave when `stop` is not empty, after the current element."""
        raise NotImplementedError  # pragma: no cover

    def restart(self, out: list[Any]) -> None:
        """Go back to the first state: the decider said restart."""

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def ask(self, asked: int) -> None:
        window = self._pace.window
        if window > asked:
            window = asked
        in_ = self.in_
        due = in_.due
        in_.want(window if not self.thins or due * 2 <= asked else due)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        pace = self._pace
        most = pace.limit
        if out.asked < most and not self.gathers:
            most = out.asked
        chunk = in_.grab(most)
        n = len(chunk)
        feed: Any = iter(chunk)
        results: list[Any] = []
        stop = pace.begin()
        failure: BaseException | None = None
        while True:
            try:
                self.loop(feed, results, stop)
            except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
                failure = self._after(error, chunk[n - feed.__length_hint__() - 1], results)
                if failure is not None or stop:
                    break
            else:
                break
        left = feed.__length_hint__()
        pace.end(n - left)
        if failure is not None:
            if results:
                out.push(results)
            self.stopped_by(failure)
            return
        if self.back:
            left += self.back
            self.back = 0
        if left:
            in_.unread(chunk[n - left :])
        if results:
            out.push(results)
        if self.over is not None:
            self.end_with(self.over)
            return
        asked = out.asked
        if asked:
            self.ask(asked)

    def _after(self, error: BaseException, element: Any, results: list[Any]) -> BaseException | None:
        """Ask the decider; return the error that stops the stage, None to go on with the next element."""
        try:
            directive = directive_for(self, error, element, self.fn)
            if directive is Directive.STOP:
                return error
            if directive is Directive.RESTART:
                self.restart(results)
        except BaseException as worse:  # noqa: BLE001  # the decider's, or the new state's
            return worse
        return None

    def stopped_by(self, failure: BaseException) -> None:
        """User code raised and the decider said stop."""
        self.fail_stage(failure)
