"""Operators that handle an upstream failure.

`on` is the exception class or classes that an operator handles, or a predicate of the error; other failures pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.stages.checks import plain_function
from streamactors.stages.errors.recovering import (
    MapError,
    On,
    OnErrorComplete,
    Recover,
    RecoverWith,
    RecoverWithRetries,
    failures,
)

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source


class ErrorOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def map_error(self, fn: Callable[[Any], BaseException], on: On = Exception) -> Ops[Out, Mat]:
        return self._via(MapError(fn, on))

    def recover(self, fn: Callable[[Any], U], on: On = Exception) -> Ops[Out | U, Mat]:
        return self._via(Recover(fn, on))

    def recover_with(self, fn: Callable[[Any], Source[U, Any]], on: On = Exception) -> Ops[Out | U, Mat]:
        return self._via(RecoverWith(fn, on))

    def recover_with_retries(
        self, attempts: int, fn: Callable[[Any], Source[U, Any]], on: On = Exception
    ) -> Ops[Out | U, Mat]:
        return self._via(RecoverWithRetries(attempts, fn, on))

    def on_error_complete(self, on: On = Exception) -> Ops[Out, Mat]:
        return self._via(OnErrorComplete(on))

    def on_error_resume(self, fn: Callable[[Any], Source[U, Any]], on: On = Exception) -> Ops[Out | U, Mat]:
        """As `recover_with`; the name that Reactive Streams libraries use."""
        return self._via(RecoverWith(fn, on))

    def on_error_continue(
        self, fn: Callable[[BaseException], object] | None = None, on: On = Exception
    ) -> Ops[Out, Mat]:
        """Drop the elements for which a stage before this fails, and call `fn(error)` for each; other failures stop the stream.

        The decider of all stages up to here that honour supervision (see their pages). Each dropped element is logged.
        """
        chosen = failures("on_error_continue", on)
        if fn is not None:
            plain_function("on_error_continue", fn)

        def decide(error: BaseException) -> Directive:
            if not chosen(error):
                return Directive.STOP
            if fn is not None:
                try:
                    fn(error)
                except BaseException as worse:
                    blame(worse, "on_error_continue", error, fn)
                    raise
            return Directive.RESUME

        return self.with_attributes(decider=decide)
