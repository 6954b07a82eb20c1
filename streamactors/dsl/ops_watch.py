"""Operators that look on."""

from __future__ import annotations

from collections.abc import Callable
from logging import DEBUG, Logger
from typing import Any, overload

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import M3, Mat, Out
from streamactors.engine.blueprint import keep_right
from streamactors.stages.watching import Log, WatchTermination


class WatchOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def log(
        self,
        name: str,
        extract: Callable[[Out], Any] | None = None,
        level: int = DEBUG,
        logger: Logger | None = None,
    ) -> Ops[Out, Mat]:
        """Write elements, completion and cancellation to a logger at `level`, a failure at ERROR.

        `extract(element)` gives what is written for an element, by default the element itself; the logger is
        "streamactors.stream" unless another is given.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop an element for which `extract` raised.
        """
        return self._via(Log(name, extract, level, logger))

    @overload
    def watch_termination(self) -> Ops[Out, StreamFuture[None]]: ...
    @overload
    def watch_termination(self, combine: Callable[[Mat, StreamFuture[None]], M3]) -> Ops[Out, M3]: ...
    def watch_termination(self, combine: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        """Pass everything; materialize a future that tells how the stream ended at this place.

        The future is None when upstream completed or downstream cancelled, and fails when either failed. The materialized value is
        the future, or `combine(this part's, the future)`, for instance Keep.both.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via_mat(WatchTermination(), combine)
