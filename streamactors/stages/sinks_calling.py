"""Sinks that call a user function with each element: foreach, fold, reduce.

Slices follow the clock (engine/pace.py), so a slow function keeps nobody else in its island waiting, and no more is asked for than
about half a second of its work. Marks: foreach is done with what its function returned from; fold and reduce at the end only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.pace import Pace
from streamactors.engine.sink import SinkLogic
from streamactors.engine.supervision import Directive, directive_for
from streamactors.engine.zero import fresh
from streamactors.errors import NoSuchElement
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks import SinkStage

_NOTHING: Any = object()


class CallingSinkLogic(SinkLogic):
    """Base: `each(feed, stop)` loops over an iterator until it ends or `stop` fills."""

    fn: Callable[..., Any]

    def each(self, feed: Any, stop: list[int]) -> None:
        """Consume elements of `feed`; leave the loop when `stop` is not empty."""
        raise NotImplementedError  # pragma: no cover

    def restart(self) -> None:
        """Go back to the first state: the decider said restart."""

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.in_.want(self._pace.window)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        chunk = in_.grab(pace.limit)
        n = len(chunk)
        feed: Any = iter(chunk)
        stop = pace.begin()
        failure: BaseException | None = None
        while True:
            try:
                self.each(feed, stop)
            except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
                directive = directive_for(self, error, chunk[n - feed.__length_hint__() - 1], self.fn)
                if directive is Directive.STOP:
                    failure = error
                    break
                if directive is Directive.RESTART:
                    self.restart()
                if stop:
                    break
            else:
                break
        left = feed.__length_hint__()
        pace.end(n - left)
        if failure is not None:
            self.fail_stage(failure)
            return
        if left:
            in_.unread(chunk[n - left :])
        due = in_.due
        in_.want(pace.window if due * 2 <= pace.window else due)


class Foreach(SinkStage):
    """Call a function with each element; materializes a future that ends with the stream.

    Supervision: resume and restart drop the element."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = plain_function("foreach", fn, "foreach_async")

    def logic(self) -> SinkLogic:
        return _ForeachLogic(self._fn)


class _ForeachLogic(CallingSinkLogic):
    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fn = fn

    def each(self, feed: Any, stop: list[int]) -> None:
        fn = self.fn
        for element in feed:
            fn(element)
            if stop:
                return


class Fold(SinkStage):
    """Combine all elements, beginning with `zero`; materializes a future of the result.

    Each run starts with a copy of `zero` (`copy.copy`), so a list may be folded into.
    Supervision: resume drops the element, restart also goes back to `zero`."""

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        self._zero = zero
        self._fn = plain_function("fold", fn)

    def logic(self) -> SinkLogic:
        return _FoldLogic(self._zero, self._fn)


class _FoldLogic(CallingSinkLogic):
    done_at_end = True

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.fn = fn
        self._zero = zero
        self.restart()

    def restart(self) -> None:
        self._value = fresh(self._zero)

    def each(self, feed: Any, stop: list[int]) -> None:
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
    """Combine all elements, beginning with the first; materializes a future of the result.

    Fails with NoSuchElement when the stream is empty. Supervision: resume drops the element, restart also what was combined."""

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        self._fn = plain_function("reduce", fn)

    def logic(self) -> SinkLogic:
        return _ReduceLogic(_NOTHING, self._fn)


class _ReduceLogic(_FoldLogic):
    def restart(self) -> None:
        self._value = _NOTHING

    def each(self, feed: Any, stop: list[int]) -> None:
        if self._value is _NOTHING:
            self._value = next(feed)
            if stop:
                return
        super().each(feed, stop)

    def on_complete(self, in_: Connection) -> None:
        if self._value is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; fold with a zero gives that instead"))
        else:
            self.succeed(self._value)
