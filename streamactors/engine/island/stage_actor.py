"""The actor of a running stage: actors send it messages, it watches them and can be watched. A stage has at most one.

Owner: the stage. Messages arrive as calls on the stage's island, in order. A message that comes after the stage has stopped is
a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.address import ActorRef
from streamactors.actors.running.running_actor import Watch, watch_ref
from streamactors.actors.running.supervision import ActorTerminated

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

Receive = Callable[[Any, "ActorRef | None"], None]


class StageActor:
    """`ref` is the address; `receive(message, sender)` is called on the stage's island."""

    def __init__(self, logic: Logic, receive: Receive) -> None:
        self._logic = logic
        self._receive = receive
        self._watchers: list[ActorRef] = []
        self.name = f"stage {type(logic).__name__.strip('_')}"
        self.ref = ActorRef(self)

    def tell(self, envelope: tuple[Any, Any], /) -> None:
        """Take (message, sender). Any thread."""
        logic = self._logic
        if logic.stopped:
            self._too_late(envelope)
        else:
            logic.interpreter.post(logic, self._deliver, envelope)

    def send(self, target: ActorRef, message: Any) -> None:
        """Send a message in the name of the stage."""
        target.tell(message, self.ref)

    def watch(self, target: ActorRef) -> None:
        """Receive ActorTerminated(target) when `target` has ended."""
        watch_ref(self.ref, target)

    def unwatch(self, target: ActorRef) -> None:
        """End a `watch`."""
        watch_ref(self.ref, target, False)

    def become(self, receive: Receive) -> None:
        """From now on call `receive` with the messages."""
        self._receive = receive

    def stop(self) -> None:
        """Send ActorTerminated to the watchers. Called from the stage's `on_stop`."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.tell(ActorTerminated(self.ref), self.ref)

    def _deliver(self, envelope: tuple[Any, Any]) -> None:
        message, sender = envelope
        if type(message) is Watch:
            self._watchers = [watcher for watcher in self._watchers if watcher is not message.watcher]
            if message.watching:
                self._watchers.append(message.watcher)
        else:
            self._receive(message, sender)

    def _too_late(self, envelope: tuple[Any, Any]) -> None:
        message, sender = envelope
        if type(message) is Watch:
            if message.watching:
                message.watcher.tell(ActorTerminated(self.ref), self.ref)
        else:
            self._logic.interpreter.island.run.system.base.dead_letter(self.ref, message, sender)
