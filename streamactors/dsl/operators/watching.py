"""Operators that observe a stream without changing it."""

from __future__ import annotations

from collections.abc import Callable
from logging import DEBUG, Logger
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.address import ActorRef
from streamactors.actors.futures import StreamFuture
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import M3, Mat, Out
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import keep_right

if TYPE_CHECKING:
    from streamactors.stages.watching.meter import RateMeter
    from streamactors.stages.watching.monitor import FlowMonitor


class WatchingOps(Ops[Out, Mat]):
    """Operators that watch a stream and leave its elements as they are."""

    __slots__ = ()

    def log(
        self,
        name: str,
        extract: Callable[[Out], Any] | None = None,
        level: int = DEBUG,
        logger: Logger | None = None,
    ) -> Ops[Out, Mat]:
        """Log elements, completion and cancellation at `level`, a failure at ERROR.

        `extract(element)` returns the text to log for an element, by default the element itself is logged. The default logger is
        "streamactors.stream".
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop an element for which `extract` raised.

        Example:
            a -1-2-3|
            a.log('numbers')
        """
        from streamactors.stages.watching.observing import Log

        return self._via(Log(name, extract, level, logger))

    @overload
    def watch_termination(self) -> Ops[Out, StreamFuture[None]]: ...
    @overload
    def watch_termination(self, mat: Callable[[Mat, StreamFuture[None]], M3]) -> Ops[Out, M3]: ...
    def watch_termination(self, mat: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        """Pass every element on; materialize a future that ends when the stream ends at this place.

        The future's result is None when upstream completed or downstream cancelled; the future fails when either failed. The
        materialized value is the future, or `mat(this part's, the future)`, for example Keep.both.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.watch_termination()
        """
        from streamactors.stages.watching.observing import WatchTermination

        return self._via_mat(WatchTermination(), mat)

    @overload
    def monitor(self) -> Ops[Out, FlowMonitor]: ...
    @overload
    def monitor(self, mat: Callable[[Mat, FlowMonitor], M3]) -> Ops[Out, M3]: ...
    def monitor(self, mat: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        """Pass every element on; materialize a FlowMonitor that knows the last element, how many have passed, and how the stream has ended.

        The materialized value is the monitor, or `mat(this part's, the monitor)`, for example Keep.both.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.monitor()
        """
        from streamactors.stages.watching.monitor import Monitor

        return self._via_mat(Monitor(), mat)

    @overload
    def meter(self, window: Duration = "10s") -> Ops[Out, RateMeter]: ...
    @overload
    def meter(self, window: Duration, mat: Callable[[Mat, RateMeter], M3]) -> Ops[Out, M3]: ...
    def meter(self, window: Any = "10s", mat: Callable[[Any, Any], Any] = keep_right) -> Ops[Out, Any]:
        """Pass every element on; materialize a RateMeter, which counts them and knows their rate over the last `window`.

        The materialized value is the meter, or `mat(this part's, the meter)`, for example Keep.both.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.meter('1s')
        """
        from streamactors.stages.watching.meter import Meter

        return self._via_mat(Meter(window), mat)

    def watch(self, actor: ActorRef) -> Ops[Out, Mat]:
        """Pass every element on while an actor lives.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: the actor ends, or has ended before (ActorError).

        Example:
            a -1-2-3|
            b ----|
            b.run_with(Sink.on_complete(lambda error: system.tell(topic, ActorExitRequest())))
            a.watch(topic)
        """
        from streamactors.stages.watching.watch import Watch

        return self._via(Watch(actor))

    def do_on_first(self, fn: Callable[[Out], object]) -> Ops[Out, Mat]:
        """Pass every element; call `fn` with the first one before it is passed.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: `fn` raises.

        Example:
            a -1-2-3|
            a.do_on_first(seen.append)
        """
        from streamactors.stages.watching.hooks import DoOnFirst

        return self._via(DoOnFirst(fn))

    def do_on_cancel(self, fn: Callable[[BaseException, bool], object]) -> Ops[Out, Mat]:
        """Pass every element; call `fn(cause, was_normal)` when downstream cancels.

        `was_normal` is False when downstream failed, and `cause` is then its error.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels, after `fn`.

        Example:
            a -1-2-3|
            a.do_on_cancel(lambda cause, was_normal: seen.append(was_normal)).take(2)
        """
        from streamactors.stages.watching.hooks import DoOnCancel

        return self._via(DoOnCancel(fn))
