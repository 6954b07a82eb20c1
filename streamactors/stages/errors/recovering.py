"""Operators that handle an upstream failure: map_error, recover, recover_with, recover_with_retries, on_error_complete.

Each takes `on`: the exception class or classes that it handles, or a predicate of the error; other failures pass. Marks pass at once and
exactly: no mark follows elements that a failure dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.bases.emitting import EmittingLogic
from streamactors.stages.bases.inner import source_module
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import at_least, plain_function

On: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], Any]"
"""The errors that an operator handles: a class, several, or a predicate."""


def failures(operator: str, on: On) -> Callable[[BaseException], Any]:
    """Return `on` as a predicate."""
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

    def __init__(self, on: On = Exception) -> None:
        self.on = failures(self.label, on)


class _OnErrorLogic(EmittingLogic, PassingLogic):
    """Passes every element on; `meet` handles a failure."""

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if self.stage.on(error):
            self.meet(error)
        else:
            self.fail_stage(error)

    def meet(self, error: BaseException) -> None:
        """Upstream has failed with an error that this stage handles."""
        raise NotImplementedError  # pragma: no cover

    def call(self, fn: Callable[[BaseException], Any], error: BaseException) -> Any:
        """Return `fn(error)`. If `fn` raises, `error` becomes the cause of the new error."""
        try:
            return fn(error)
        except BaseException as worse:
            if worse is not error:
                blame(worse, self.name, error, fn)
                worse.__cause__ = worse.__cause__ or error
            raise


class MapError(_OnError[In, In]):
    """The stage of `Source.map_error`."""

    name = "map_error"

    def __init__(self, fn: Callable[[BaseException], BaseException], on: On = Exception) -> None:
        super().__init__(on)
        self.fn = plain_function("map_error", fn)


@logic_of(MapError)
class _MapErrorLogic(_OnErrorLogic):
    def meet(self, error: BaseException) -> None:
        other = self.call(self.stage.fn, error)
        if not isinstance(other, BaseException):
            raise TypeError(
                f"map_error expects its function to return an exception, got {shortened(other, 60)}"
            ) from error
        self.fail_stage(other)


class Recover(_OnError[In, Out]):
    """The stage of `Source.recover`."""

    name = "recover"

    def __init__(self, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(on)
        self.fn = plain_function("recover", fn)


@logic_of(Recover)
class _RecoverLogic(_OnErrorLogic):
    def meet(self, error: BaseException) -> None:
        self.emit_and_end([self.call(self.stage.fn, error)])


class OnErrorComplete(_OnError[In, In]):
    """The stage of `Source.on_error_complete`."""

    name = "on_error_complete"


@logic_of(OnErrorComplete)
class _OnErrorCompleteLogic(_OnErrorLogic):
    def meet(self, error: BaseException) -> None:
        self.complete_stage()


class RecoverWithRetries(_OnError[In, Out]):
    """The stage of `Source.recover_with_retries`."""

    name = "recover_with_retries"

    def __init__(self, attempts: int, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(on)
        self.attempts = at_least(self.label, "attempts", attempts, -1)
        self.fn = plain_function(self.label, fn)


class RecoverWith(RecoverWithRetries[In, Out]):
    """The stage of `Source.recover_with` and `Source.on_error_resume`."""

    name = "recover_with"

    def __init__(self, fn: Callable[[BaseException], Any], on: On = Exception) -> None:
        super().__init__(-1, fn, on)


@logic_of(RecoverWithRetries)
class _RecoverWithLogic(_OnErrorLogic):
    _failures = 0

    def meet(self, error: BaseException) -> None:
        if self._failures == self.stage.attempts:
            self.fail_stage(error)
            return
        self._failures += 1
        module = source_module(self.name, self.call(self.stage.fn, error))
        _, (inner,), _ = attach(self, module)
        self.in_ = self.inlets[0] = inner  # the failed inlet is closed
        if self.out.asked:
            inner.want(self.out.asked)

    def snapshot_state(self) -> str:
        return f"{self._failures} failures handled" if self._failures else ""
