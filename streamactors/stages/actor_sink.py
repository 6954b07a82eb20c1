"""actor_ref_with_backpressure, the sink: each element is a message to an actor, the next one goes when that has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.actors.address import ActorRef
from streamactors.actors.supervision import ActorTerminated
from streamactors.engine.connection import Connection
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage_actor import StageActor
from streamactors.engine.user_code import shortened
from streamactors.errors import ActorError, BuildError
from streamactors.stages.actor_ref import StreamCompleted, StreamFailed
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks import SinkStage

ANY_ANSWER: Final[Any] = object()
"""As `ack`: whatever the actor answers counts."""
NO_MESSAGE: Final[Any] = object()
"""As `on_init` or `on_complete`: none is sent."""
AHEAD = 16


class ActorSink(SinkStage):
    """Tell each element to an actor, one at a time: the next goes when the actor has answered with `ack`.

    Backpressures when: the actor has not answered yet.   Cancels when: the actor ends.
    Marks: done with what was answered.
    """

    name = "actor_ref_with_backpressure"

    def __init__(
        self, ref: ActorRef, on_init: Any, ack: Any, on_complete: Any, on_failure: Callable[[BaseException], Any] | None
    ) -> None:
        if not isinstance(ref, ActorRef):
            raise BuildError(
                f"{self.name} expects the ActorRef of an actor, got {type(ref).__name__} {shortened(ref, 60)}"
            )
        self._ref = ref
        self._on_init = on_init
        self._ack = ack
        self._on_complete = on_complete
        self._on_failure = (
            StreamFailed if on_failure is None else plain_function(f"{self.name}: on_failure", on_failure)
        )

    def logic(self) -> SinkLogic:
        return _ActorSinkLogic(self._ref, self._on_init, self._ack, self._on_complete, self._on_failure)


class _ActorSinkLogic(SinkLogic):
    def __init__(
        self, ref: ActorRef, on_init: Any, ack: Any, on_complete: Any, on_failure: Callable[[BaseException], Any]
    ) -> None:
        super().__init__()
        self._ref = ref
        self._on_init = on_init
        self._ack = ack
        self._on_complete = StreamCompleted() if on_complete is None else on_complete
        self._on_failure = on_failure
        self._waiting = False  # for an answer
        self._actor = StageActor(self, self._received)

    def on_start(self) -> None:
        self._actor.watch(self._ref)
        if self._on_init is NO_MESSAGE:
            self.in_.want(AHEAD)
        else:
            self._tell(self._on_init)

    def _tell(self, message: Any) -> None:
        self._waiting = True
        self.in_.hold()  # marks and completion wait for the answer
        self._actor.send(self._ref, message)

    def on_push(self, in_: Connection) -> None:
        if not self._waiting:
            self._tell(in_.grab(1)[0])

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if isinstance(message, ActorTerminated):
            self._gone()
        elif self._waiting and (self._ack is ANY_ANSWER or message == self._ack):
            self._waiting = False
            self.in_.release()
            self.in_.want(AHEAD)

    def _gone(self) -> None:
        error = ActorError(f"{self._ref.name} has ended while the stream was running")
        if not self.future.done():
            self.future.set_exception(error)
        self.complete_stage()

    def on_complete(self, in_: Connection) -> None:
        if self._on_complete is not NO_MESSAGE:
            self._actor.send(self._ref, self._on_complete)
        super().on_complete(in_)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._actor.send(self._ref, self._on_failure(error))
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self._actor.unwatch(self._ref)
        self._actor.stop()
        super().on_stop()
