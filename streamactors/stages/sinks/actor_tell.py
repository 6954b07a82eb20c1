"""actor_ref, the sink: each element is a message to an actor, without back-pressure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.running.supervision import ActorTerminated
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.stage_actor import StageActor
from streamactors.engine.logic import logic_of
from streamactors.engine.sink import SinkLogic
from streamactors.engine.user_code import shortened
from streamactors.errors import ActorError, BuildError
from streamactors.stages.checks import plain_function
from streamactors.stages.defaults import NO_MESSAGE
from streamactors.stages.sinks.values import SinkStage
from streamactors.stages.sources.actor_ref import StreamCompleted, StreamFailed


class TellSink(SinkStage):
    """The stage of `Sink.actor_ref`."""

    name = "actor_ref"

    def __init__(
        self,
        ref: ActorRef,
        on_complete: Any,
        on_failure: Callable[[BaseException], Any] | None,
        wrap: Callable[[Any], Any] | None = None,
    ) -> None:
        if not isinstance(ref, ActorRef):
            raise BuildError(
                f"{self.name} expects the ActorRef of an actor, got {type(ref).__name__} {shortened(ref, 60)}"
            )
        self.ref = ref
        self.on_complete = StreamCompleted() if on_complete is None else on_complete
        self.on_failure = StreamFailed if on_failure is None else plain_function(f"{self.name}: on_failure", on_failure)
        self.wrap = wrap  # makes the message of an element; None: the element is the message


@logic_of(TellSink)
class _TellLogic(SinkLogic):
    stage: TellSink

    def __init__(self, stage: TellSink) -> None:
        super().__init__(stage)
        self._actor = StageActor(self, self._received)

    def on_start(self) -> None:
        self._actor.watch(self.stage.ref)
        super().on_start()

    def on_chunk(self, chunk: list[Any]) -> None:
        ref, wrap, sender = self.stage.ref, self.stage.wrap, self._actor.ref
        for element in chunk:
            ref.tell(element if wrap is None else wrap(element), sender)

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if isinstance(message, ActorTerminated):
            self.future.try_fail(ActorError(f"{self.stage.ref.name} has ended while the stream was running"))
            self.complete_stage()

    def on_complete(self, in_: Connection) -> None:
        if self.stage.on_complete is not NO_MESSAGE:
            self._actor.send(self.stage.ref, self.stage.on_complete)
        super().on_complete(in_)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        message = self.stage.on_failure(error)
        if message is not NO_MESSAGE:
            self._actor.send(self.stage.ref, message)
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self._actor.unwatch(self.stage.ref)
        self._actor.stop()
        super().on_stop()
