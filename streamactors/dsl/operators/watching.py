"""Operators that observe a stream without changing it."""

from __future__ import annotations

from collections.abc import Callable
from logging import DEBUG, Logger
from typing import Any, overload

from streamactors.actors.address import ActorRef
from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import M3, Mat, Out
from streamactors.engine.blueprint.modules import keep_right
from streamactors.stages.watching.hooks import DoOnCancel, DoOnFirst
from streamactors.stages.watching.meter import Meter, RateMeter
from streamactors.stages.watching.monitor import FlowMonitor, Monitor
from streamactors.stages.watching.observing import Log, WatchTermination
from streamactors.stages.watching.watch import Watch


class WatchingOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def log(
        self,
        name: str,
        extract: Callable[[Out], Any] | None = None,
        level: int = DEBUG,
        logger: Logger | None = None,
    ) -> Ops[Out, Mat]:
        return self._via(Log(name, extract, level, logger))

    @overload
    def watch_termination(self) -> Ops[Out, StreamFuture[None]]: ...
    @overload
    def watch_termination(self, combine: Callable[[Mat, StreamFuture[None]], M3]) -> Ops[Out, M3]: ...
    def watch_termination(self, combine: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        return self._via_mat(WatchTermination(), combine)

    @overload
    def monitor(self) -> Ops[Out, FlowMonitor]: ...
    @overload
    def monitor(self, combine: Callable[[Mat, FlowMonitor], M3]) -> Ops[Out, M3]: ...
    def monitor(self, combine: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        return self._via_mat(Monitor(), combine)

    @overload
    def meter(self, window: Duration = "10s") -> Ops[Out, RateMeter]: ...
    @overload
    def meter(self, window: Duration, combine: Callable[[Mat, RateMeter], M3]) -> Ops[Out, M3]: ...
    def meter(self, window: Any = "10s", combine: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        return self._via_mat(Meter(window), combine)

    def watch(self, actor: ActorRef) -> Ops[Out, Mat]:
        return self._via(Watch(actor))

    def do_on_first(self, fn: Callable[[Out], object]) -> Ops[Out, Mat]:
        return self._via(DoOnFirst(fn))

    def do_on_cancel(self, fn: Callable[[BaseException, bool], object]) -> Ops[Out, Mat]:
        return self._via(DoOnCancel(fn))
