"""watch: the stream fails when an actor ends."""

from __future__ import annotations

from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.running.supervision import ActorTerminated
from streamactors.engine.island.stage_actor import StageActor
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import ActorError, BuildError
from streamactors.stages.bases.passing import PassingLogic


class Watch(Stage[In, In]):
    """The stage of `Source.watch`."""

    handling = EXACT

    def __init__(self, ref: ActorRef) -> None:
        if not isinstance(ref, ActorRef):
            raise BuildError(f"watch expects the ActorRef of an actor, got {type(ref).__name__} {shortened(ref, 60)}")
        self.ref = ref


@logic_of(Watch)
class _WatchLogic(PassingLogic):
    def __init__(self, stage: Watch[Any]) -> None:
        super().__init__(stage)
        self._actor = StageActor(self, self._received)

    def on_start(self) -> None:
        self._actor.watch(self.stage.ref)

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if isinstance(message, ActorTerminated):
            self.fail_stage(ActorError(f"watch: actor {self.stage.ref.name} has ended"))

    def on_stop(self) -> None:
        self._actor.unwatch(self.stage.ref)
        self._actor.stop()
