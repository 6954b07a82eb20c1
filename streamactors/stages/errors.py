"""Operators that meet the failure of what is upstream: map_error, recover, recover_with, recover_with_retries, on_error_complete.

Each takes `on`: the exception class or classes it is for, or a predicate of the error; other failures pass. Marks pass at once and
exactly: elements that a failure swallowed have no mark behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.run import attach
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function
from streamactors.stages.emitting import EmittingLogic
from streamactors.stages.flatten import source_module
from streamactors.stages.passing import PassingLogic

On: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], Any]"
"""Which errors an operator is for: a class, several, or a predicate."""


def _matches(operator: str, on: On) -> Callable[[BaseException], Any]:
    """Return the predicate that `on` stands for."""
    kinds = tuple(
        kind
        for kind in (on if isinstance(on, tuple) else (on,))
        if isinstance(kind, type) and issubclass(kind, BaseException)
    )
    if len(kinds) == (len(on) if isinstance(on, tuple) else 1):
        return lambda error: isinstance(error, kinds)
    if isinstance(on, (tuple, type)) or not callable(on):
        raise BuildError(
            f"{operator}: on must be an exception class, several, or a predicate of the error, got {shortened(on, 60)}"
        )
    return plain_function(operator, on)


class _OnError(Stage[In, Out]):
    handling = EXACT

    def __init__(self, on: On) -> None:
        self._on = _matches(self.label, on)


class _OnErrorLogic(EmittingLogic, PassingLogic):
    """Passes everything on; `meet` decides what becomes of a failure."""

    def __init__(self, on: Callable[[BaseException], Any]) -> None:
        self._on = on

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if self._on(error):
            self.meet(error)
        else:
            self.fail_stage(error)

    def meet(self, error: BaseException) -> None:
        """Upstream has failed with an error that this stage is for."""
        raise NotImplementedError  # pragma: no cover

    def call(self, fn: Callable[[BaseException], Any], error: BaseException) -> Any:
        """Return `fn(error)`; an error that it raises itself gets the first one as its cause."""
        try:
            return fn(error)
        except BaseException as worse:
            if worse is not error:
                blame(worse, self.name, error, fn)
                worse.__cause__ = worse.__cause__ or error
            raise


class MapError(_OnError[In, In]):
    """Turn a failure into another one: `fn(error)` returns the error to fail with.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    name = "map_error"

    def __init__(self, fn: Callable[[BaseException], BaseException], on: On = Exception) -> None:
        super().__init__(on)
        self._fn = plain_function("map_error", fn)

    def logic(self) -> Logic:
        return _MapErrorLogic(self._on, self._fn)


class _MapErrorLogic(_OnErrorLogic):
    def __init__(self, on: Callable[[BaseException], Any], fn: Callable[[BaseException], BaseException]) -> None:
        super().__init__(on)
        self._fn = fn

    def meet(self, error: BaseException) -> None:
        other = self.call(self._fn, error)
        if not isinstance(other, BaseException):
            raise TypeError(
                f"map_error expects its function to return an exception, got {shortened(other, 60)}"
            ) from error
        self.fail_stage(other)


class Recover(_OnError[In, Out]):
    """Emit one last element instead of failing: `fn(error)` returns it.

    Emits when: upstream does, and once when it failed.   Backpressures when: downstream does.
    Completes when: upstream completes, or failed and the last element has been emitted.   Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    name = "recover"

    def __init__(self, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(on)
        self._fn = plain_function("recover", fn)

    def logic(self) -> Logic:
        return _RecoverLogic(self._on, self._fn)


class _RecoverLogic(_OnErrorLogic):
    def __init__(self, on: Callable[[BaseException], Any], fn: Callable[[BaseException], Any]) -> None:
        super().__init__(on)
        self._fn = fn

    def meet(self, error: BaseException) -> None:
        self.emit_and_end([self.call(self._fn, error)])


class OnErrorComplete(_OnError[In, In]):
    """Complete instead of failing.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes or fails.  Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    name = "on_error_complete"

    def __init__(self, on: On = Exception) -> None:
        super().__init__(on)

    def logic(self) -> Logic:
        return _OnErrorCompleteLogic(self._on)


class _OnErrorCompleteLogic(_OnErrorLogic):
    def meet(self, error: BaseException) -> None:
        self.complete_stage()


class RecoverWithRetries(_OnError[In, Out]):
    """Go on with another source instead of failing: `fn(error)` returns it; if that fails too, again, at most `attempts` times in all.

    Emits when: upstream does, and when it has failed, the source in its place.   Backpressures when: downstream does.
    Completes when: upstream or the source in its place completes.   Cancels when: downstream cancels.
    Fails when: there was a failure more than `attempts` times (-1: as often as may be), with the last one.
    Marks: at once, exact.
    """

    name = "recover_with_retries"

    def __init__(self, attempts: int, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(on)
        self._attempts = at_least(self.label, "attempts", attempts, -1)
        self._fn = plain_function(self.label, fn)

    def logic(self) -> Logic:
        return _RecoverWithLogic(self._on, self._attempts, self._fn)


class RecoverWith(RecoverWithRetries[In, Out]):
    """Go on with another source instead of failing: `fn(error)` returns it; if that fails too, again.

    Emits when: upstream does, and when it has failed, the source in its place.   Backpressures when: downstream does.
    Completes when: upstream or the source in its place completes.   Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    name = "recover_with"

    def __init__(self, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(-1, fn, on)


class _RecoverWithLogic(_OnErrorLogic):
    def __init__(self, on: Callable[[BaseException], Any], attempts: int, fn: Callable[[BaseException], Any]) -> None:
        super().__init__(on)
        self._attempts = attempts
        self._fn = fn
        self._failures = 0

    def meet(self, error: BaseException) -> None:
        if self._failures == self._attempts:
            self.fail_stage(error)
            return
        self._failures += 1
        module = source_module(self.name, self.call(self._fn, error))
        _, (inner,), _ = attach(self, module)
        self.in_ = self.inlets[0] = inner  # the one that has failed is closed
        if self.out.asked:
            inner.want(self.out.asked)

    def snapshot_state(self) -> str:
        return f"{self._failures} failures met" if self._failures else ""
