"""RestartSource, RestartFlow, RestartSink: parts that are created again, after a growing back-off, when they end. RetryFlow: elements that
are tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.context.with_context import FlowWithContext
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.dsl.typevars import K, T, U, V
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.stages.control.restart import RestartingFlow, RestartingSink, RestartingSource
from streamactors.stages.control.retry import Retrying
from streamactors.stages.restart_settings import RestartSettings


class RestartSource:
    """A source that is created again when it ends. Its materialized values are lost; the function may store them."""

    @staticmethod
    def with_backoff(settings: RestartSettings, make: Callable[[], Source[T, Any]]) -> Source[T, NotUsed]:
        """Emit the elements of the source that `make` returns; create it again when it completes or fails.

        Emits when: the source does.                  Backpressures when: downstream does; no element comes during a back-off.
        Completes when: restarts are used up and the source completed.   Cancels when: downstream cancels.
        Fails when: the source failed, and restarts are used up or `restart_on` is False for the error.

        Example:
            a -1-2#
            RestartSource.with_backoff(RestartSettings('20ms', '20ms', random_factor=0), lambda: a).take(4)
        """
        return Source(StageModule(RestartingSource(settings, make, only_on_failures=False)))

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, make: Callable[[], Source[T, Any]]) -> Source[T, NotUsed]:
        """As `with_backoff`, but the stage completes when the source completes.

        Example:
            a -1-2|
            RestartSource.on_failures_with_backoff(RestartSettings('20ms', '20ms', random_factor=0), lambda: a)
        """
        return Source(StageModule(RestartingSource(settings, make, only_on_failures=True)))


class RestartFlow:
    """A flow that is created again when it ends. Elements inside it are lost then, and runs that read marks refuse it. What it has not taken
    in goes to the next one, also after upstream has completed.

    With `redeliver=True` the next flow gets what the last one had taken in and not acknowledged, at least once and in order; the marks of the run
    wait for it. Every stage of the flow must let marks pass. Materializes a RestartedValue, the same across restarts."""

    @staticmethod
    def with_backoff(
        settings: RestartSettings, make: Callable[[], Flow[T, U, Any]], *, redeliver: bool = False
    ) -> Flow[T, U, Any]:
        """Send elements through the flow that `make` returns; create it again when it completes, fails or cancels.

        Emits when: the flow does.                    Backpressures when: the flow does, and during a back-off.
        Completes when: upstream does and the flow completes, or restarts are used up.   Cancels when: downstream cancels.
        Fails when: the flow failed, and restarts are used up, `restart_on` is False for the error, or upstream has completed and no element
        is left; upstream fails and the flow, too.

        Example:
            a -1-0---3|
            a.via(RestartFlow.with_backoff(RestartSettings('20ms', '20ms', random_factor=0), lambda: Flow.map(lambda x: 6 // x)))
        """
        return Flow(StageModule(RestartingFlow(settings, make, only_on_failures=False, redeliver=redeliver)))

    @staticmethod
    def on_failures_with_backoff(
        settings: RestartSettings, make: Callable[[], Flow[T, U, Any]], *, redeliver: bool = False
    ) -> Flow[T, U, Any]:
        """As `with_backoff`, but the stage completes when the flow completes.

        Example:
            a -1-0---3-1-2|
            settings = RestartSettings('20ms', '20ms', random_factor=0)
            a.via(RestartFlow.on_failures_with_backoff(settings, lambda: Flow.map(lambda x: 6 // x).take(2)))
        """
        return Flow(StageModule(RestartingFlow(settings, make, only_on_failures=True, redeliver=redeliver)))


class RestartSink:
    """A sink that is created again when it ends. Elements inside it are lost then, and runs that read marks refuse it. What it has not taken
    in goes to the next one, also after upstream has completed.

    With `redeliver=True` the next sink gets what the last one had taken in and not acknowledged, at least once and in order; an offset is
    done when an instance has done it. Materializes a RestartedValue, the same across restarts: a future of the last instance's result."""

    @staticmethod
    def with_backoff(
        settings: RestartSettings, make: Callable[[], Sink[T, Any]], *, redeliver: bool = False
    ) -> Sink[T, Any]:
        """Send elements to the sink that `make` returns; create it again when it fails or cancels.

        Backpressures when: the sink does, and during a back-off.
        Cancels when: the sink failed or cancelled, and restarts are used up or `restart_on` is False for the error.

        Example:
            a -1-0---3|
            settings = RestartSettings('20ms', '20ms', random_factor=0)
            a.to(RestartSink.with_backoff(settings, lambda: Sink.foreach(lambda x: seen.append(6 // x)))).run()
        """
        return Sink(StageModule(RestartingSink(settings, make, only_on_failures=False, redeliver=redeliver)))

    @staticmethod
    def on_failures_with_backoff(
        settings: RestartSettings, make: Callable[[], Sink[T, Any]], *, redeliver: bool = False
    ) -> Sink[T, Any]:
        """As `with_backoff`, but the stage cancels when the sink cancels because it needs no more elements.

        Example:
            a -1-0---3|
            settings = RestartSettings('20ms', '20ms', random_factor=0)
            a.to(RestartSink.on_failures_with_backoff(settings, lambda: Sink.foreach(lambda x: seen.append(6 // x)))).run()
        """
        return Sink(StageModule(RestartingSink(settings, make, only_on_failures=True, redeliver=redeliver)))


class RetryFlow:
    """A flow through which single elements go again, after a growing back-off, while a function asks for it."""

    @staticmethod
    def with_backoff(
        settings: RestartSettings, flow: Flow[T, U, Any], decide: Callable[[T, U], T | None]
    ) -> Flow[T, U, NotUsed]:
        """Run each element through `flow`. `decide(element, result)` returns None to emit the result, else the element to try next.

        The flow must emit exactly one result for each element. `settings` gives the back-off and, as `max_restarts`, the number of
        retries of an element; the result of the last one is emitted as it is.
        Emits when: the flow has a result and `decide` returns None, or the retries are used up.
        Backpressures when: downstream does, an element is inside the flow, or a back-off runs.
        Completes when: upstream completes and the last element's result has been emitted.   Cancels when: downstream cancels.
        Fails when: the flow fails, completes or cancels early, or emits more than one result for an element; `decide` raises.

        Example:
            a 2---1|
            a.via(RetryFlow.with_backoff(RestartSettings('20ms', '20ms', random_factor=0), Flow.map(lambda x: x - 1), lambda x, y: y or None))
        """
        return Flow(StageModule(Retrying(settings, flow, decide)))

    @staticmethod
    def with_backoff_and_context(
        settings: RestartSettings,
        flow: FlowWithContext[T, K, U, V, Any],
        decide: Callable[[tuple[T, K], tuple[U, V]], tuple[T, K] | None],
    ) -> FlowWithContext[T, K, U, V, NotUsed]:
        """As `with_backoff`; elements, results and what `decide` returns are pairs (element, context).

        Example:
            a 2---1|
            less = FlowWithContext.identity().map(lambda x: x - 1)
            settings = RestartSettings('20ms', '20ms', random_factor=0)
            again = RetryFlow.with_backoff_and_context(settings, less, lambda taken, result: result if result[0] else None)
            a.with_context(str).via(again).as_source()
        """
        return FlowWithContext(StageModule(Retrying(settings, flow, decide)))


__all__ = ["RestartFlow", "RestartSettings", "RestartSink", "RestartSource", "RetryFlow"]
