"""Topic: an actor that passes each published message on to its subscribers. Messages of one publisher arrive in order; no publisher waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import ActorTypeDispatcher
from streamactors.actors.running.running_actor import unwatch_actor, watch_actor
from streamactors.actors.running.supervision import ActorTerminated


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send the messages that are published from now on to `subscriber`."""

    subscriber: ActorRef


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Send no more messages to `subscriber`."""

    subscriber: ActorRef


@dataclass(frozen=True, slots=True)
class Publish:
    """Send `message` to every subscriber."""

    message: Any


class Topic(ActorTypeDispatcher):  # type: ignore[misc]
    """`system.create_actor(Topic)`; then send it Subscribe, Unsubscribe and Publish, or use `PubSub.source` and `PubSub.sink`.

    A subscriber that ends is forgotten. A message without subscribers is dropped, as in every publish-subscribe."""

    def __init__(self) -> None:
        super().__init__()
        self._subscribers: dict[ActorRef, None] = {}

    def receiveMsg_Subscribe(self, message: Subscribe, sender: Any) -> None:
        if message.subscriber not in self._subscribers:
            self._subscribers[message.subscriber] = None
            watch_actor(self, message.subscriber)

    def receiveMsg_Unsubscribe(self, message: Unsubscribe, sender: Any) -> None:
        if message.subscriber in self._subscribers:
            del self._subscribers[message.subscriber]
            unwatch_actor(self, message.subscriber)

    def receiveMsg_ActorTerminated(self, message: ActorTerminated, sender: Any) -> None:
        self._subscribers.pop(message.address, None)

    def receiveMsg_Publish(self, message: Publish, sender: Any) -> None:
        for subscriber in self._subscribers:
            self.send(subscriber, message.message)
