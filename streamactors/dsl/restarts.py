"""RestartSource, RestartFlow, RestartSink: parts that are made anew, after a wait that grows, when they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.dsl.typevars import T, U
from streamactors.engine.blueprint import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.stages.restart import RestartingFlow, RestartingSink, RestartingSource
from streamactors.stages.restart_settings import RestartSettings


class RestartSource:
    """A source that is made anew. Its materialized values are lost; keep what you need in the function."""

    @staticmethod
    def with_backoff(settings: RestartSettings, make: Callable[[], Source[T, Any]]) -> Source[T, NotUsed]:
        """Emit what the source that `make` returns emits; make it anew when it completes or fails.

        Emits when: the source does.                  Backpressures when: downstream does; nothing comes while it waits.
        Completes when: restarts are used up and the source completed.   Cancels when: downstream cancels.
        Fails when: restarts are used up, or not wanted, and the source failed.
        """
        return Source(StageModule(RestartingSource(settings, make, only_on_failures=False)))

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, make: Callable[[], Source[T, Any]]) -> Source[T, NotUsed]:
        """As `with_backoff`, but when the source completes, so does this."""
        return Source(StageModule(RestartingSource(settings, make, only_on_failures=True)))


class RestartFlow:
    """A flow that is made anew. Elements inside it are lost when it ends; runs that read marks refuse it."""

    @staticmethod
    def with_backoff(settings: RestartSettings, make: Callable[[], Flow[T, U, Any]]) -> Flow[T, U, NotUsed]:
        """Send elements through the flow that `make` returns; make it anew when it completes, fails or cancels.

        Emits when: the flow does.                    Backpressures when: the flow does, and while it waits.
        Completes when: upstream does and the flow completes, or restarts are used up.   Cancels when: downstream cancels.
        Fails when: restarts are used up, or not wanted, and the flow failed; when upstream fails and the flow passes it on.
        """
        return Flow(StageModule(RestartingFlow(settings, make, only_on_failures=False)))

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, make: Callable[[], Flow[T, U, Any]]) -> Flow[T, U, NotUsed]:
        """As `with_backoff`, but when the flow completes, so does this."""
        return Flow(StageModule(RestartingFlow(settings, make, only_on_failures=True)))


class RestartSink:
    """A sink that is made anew. Elements inside it are lost when it ends; runs that read marks refuse it."""

    @staticmethod
    def with_backoff(settings: RestartSettings, make: Callable[[], Sink[T, Any]]) -> Sink[T, NotUsed]:
        """Send elements to the sink that `make` returns; make it anew when it fails or cancels.

        Backpressures when: the sink does, and while it waits.
        Cancels when: restarts are used up, or not wanted, and the sink failed or cancelled.
        """
        return Sink(StageModule(RestartingSink(settings, make, only_on_failures=False)))

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, make: Callable[[], Sink[T, Any]]) -> Sink[T, NotUsed]:
        """As `with_backoff`, but when the sink cancels because it needs no more, so does this."""
        return Sink(StageModule(RestartingSink(settings, make, only_on_failures=True)))


__all__ = ["RestartFlow", "RestartSettings", "RestartSink", "RestartSource"]
