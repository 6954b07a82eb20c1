"""actor_ref_with_backpressure, the sink: each element is a message to an actor; the next is sent when the actor has answered."""

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
from streamactors.stages.defaults import ANY_ANSWER, NO_MESSAGE
from streamactors.stages.sinks.values import SinkStage
from streamactors.stages.sources.actor_ref import StreamCompleted, StreamFailed

AHEAD = 16


class ActorSink(SinkStage):
    """The stage of `Sink.actor_ref_with_backpressure`."""

    name = "actor_ref_with_backpressure"

    def __init__(
        self, ref: ActorRef, on_init: Any, ack: Any, on_complete: Any, on_failure: Callable[[BaseException], Any] | None
    ) -> None:
        if not isinstance(ref, ActorRef):
            raise BuildError(
                f"{self.name} expects the ActorRef of an actor, got {type(ref).__name__} {shortened(ref, 60)}"
            )
        self.ref = ref
        self.on_init = on_init
        self.ack = ack
        self.on_complete = on_complete
        self.on_failure = StreamFailed if on_failure is None else plain_function(f"{self.name}: on_failure", on_failure)


@logic_of(ActorSink)
class _ActorSinkLogic(SinkLogic):
    def __init__(self, stage: ActorSink) -> None:
        super().__init__(stage)
        self._on_complete = StreamCompleted() if stage.on_complete is None else stage.on_complete
        self._waiting = False  # for an answer
        self._actor = StageActor(self, self._received)

    def on_start(self) -> None:
        self._actor.watch(self.stage.ref)
        if self.stage.on_init is NO_MESSAGE:
            self.in_.want(AHEAD)
        else:
            self._tell(self.stage.on_init)

    def _tell(self, message: Any) -> None:
        self._waiting = True
        self.in_.hold()  # marks and completion wait for the answer
        self._actor.send(self.stage.ref, message)

    def on_push(self, in_: Connection) -> None:
        if not self._waiting:
            self._tell(in_.grab(1)[0])

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if isinstance(message, ActorTerminated):
            self._gone()
        elif self._waiting and (self.stage.ack is ANY_ANSWER or message == self.stage.ack):
            self._waiting = False
            self.in_.release()
            self.in_.want(AHEAD)

    def _gone(self) -> None:
        error = ActorError(f"{self.stage.ref.name} has ended while the stream was running")
        if not self.future.done():
            self.future.set_exception(error)
        self.complete_stage()

    def on_complete(self, in_: Connection) -> None:
        if self._on_complete is not NO_MESSAGE:
            self._actor.send(self.stage.ref, self._on_complete)
        super().on_complete(in_)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._actor.send(self.stage.ref, self.stage.on_failure(error))
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self._actor.unwatch(self.stage.ref)
        self._actor.stop()
        super().on_stop()
