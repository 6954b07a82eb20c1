"""Operators that meet the failure of what is upstream.

`on` is the exception class or classes an operator is for, or a predicate of the error; other failures pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.errors import MapError, On, OnErrorComplete, Recover, RecoverWith, RecoverWithRetries

if TYPE_CHECKING:
    from streamactors.dsl.source import Source


class ErrorOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def map_error(self, fn: Callable[[Any], BaseException], on: On = Exception) -> Ops[Out, Mat]:
        """Turn a failure into another one: `fn(error)` returns the error to fail with.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(MapError(fn, on))

    def recover(self, fn: Callable[[Any], U], on: On = Exception) -> Ops[Out | U, Mat]:
        """Emit one last element instead of failing: `fn(error)` returns it.

        Emits when: upstream does, and once when it failed.   Backpressures when: downstream does.
        Completes when: upstream completes, or failed and the last element has been emitted.   Cancels when: downstream cancels.
        """
        return self._via(Recover(fn, on))

    def recover_with(self, fn: Callable[[Any], Source[U, Any]], on: On = Exception) -> Ops[Out | U, Mat]:
        """Go on with another source instead of failing: `fn(error)` returns it; if that fails too, again.

        Emits when: upstream does, and when it has failed, the source in its place.   Backpressures when: downstream does.
        Completes when: upstream or the source in its place completes.   Cancels when: downstream cancels.
        """
        return self._via(RecoverWith(fn, on))

    def recover_with_retries(
        self, attempts: int, fn: Callable[[Any], Source[U, Any]], on: On = Exception
    ) -> Ops[Out | U, Mat]:
        """As `recover_with`, at most `attempts` times (-1: as often as may be); then the failure passes.

        Emits when: upstream does, and when it has failed, the source in its place.   Backpressures when: downstream does.
        Completes when: upstream or the source in its place completes.   Cancels when: downstream cancels.
        """
        return self._via(RecoverWithRetries(attempts, fn, on))

    def on_error_complete(self, on: On = Exception) -> Ops[Out, Mat]:
        """Complete instead of failing.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes or fails.  Cancels when: downstream cancels.
        """
        return self._via(OnErrorComplete(on))
