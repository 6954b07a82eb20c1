"""Sources fed by actors: messages sent to the materialized address become elements.

`actor_ref` keeps a bounded buffer and needs an overflow strategy; `actor_ref_with_backpressure` acknowledges each element when it has been
pushed. Both end on the messages StreamCompleted and StreamFailed, on ActorExitRequest, and on messages that the user's matchers accept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import ActorExitRequest
from streamactors.actors.running.supervision import ActorTerminated
from streamactors.actors.topic import Subscribe, Unsubscribe
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.stage_actor import StageActor
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import shortened
from streamactors.errors import ActorError, BufferOverflow, BuildError, StreamError
from streamactors.gauges import Gauge
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.rate.strategies import checked_strategy, make_room


@dataclass(frozen=True)
class StreamCompleted:
    """Sent to a source: complete, after the elements held. Sent by a sink to its actor: the stream has completed."""


@dataclass(frozen=True)
class StreamFailed:
    """Sent to a source: fail with `error`. Sent by a sink to its actor: the stream has failed."""

    error: BaseException


Completes = Callable[[Any], bool]
Fails = Callable[[Any], BaseException | None]


def _completed(message: Any) -> bool:
    return isinstance(message, StreamCompleted)


def _failed(message: Any) -> BaseException | None:
    return message.error if isinstance(message, StreamFailed) else None


class _ActorSource(GraphStage):
    """Base of the two: which messages end the stream."""

    traits = StageTraits(endless=True)
    shape = SOURCE

    def __init__(self, complete_when: Completes | None, fail_when: Fails | None) -> None:
        name = self.name
        self.completes = (
            _completed if complete_when is None else plain_function(f"{name}: complete_when", complete_when)
        )
        self.fails = _failed if fail_when is None else plain_function(f"{name}: fail_when", fail_when)


class _ActorSourceLogic(SourceLogic):
    """A source that is fed by messages to its address."""

    _completing = False

    def __init__(self, stage: _ActorSource) -> None:
        super().__init__(stage)
        self.actor = StageActor(self, self._received)

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if self._completing:
            return  # a message after the end is dropped
        error = self.stage.fails(message)
        if error is not None:
            self.fail_stage(error)
        elif isinstance(message, ActorExitRequest) or self.stage.completes(message):
            self._completing = True
            self.on_pull(self.out)
        else:
            self.on_message(message, sender)

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        """Take an element."""

    def on_stop(self) -> None:
        self.actor.stop()


class ActorRefSource(_ActorSource):
    """The stage of `Source.actor_ref`."""

    name = "actor_ref"

    def __init__(self, size: int, overflow: str, complete_when: Completes | None, fail_when: Fails | None) -> None:
        super().__init__(complete_when, fail_when)
        self.size = positive(self.name, "size", size)
        self.overflow = checked_strategy(self.name, "overflow", overflow, "backpressure")

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ActorRefLogic(self)
        return logic, logic.actor.ref


class _ActorRefLogic(_ActorSourceLogic):
    def __init__(self, stage: ActorRefSource) -> None:
        super().__init__(stage)
        self._held: deque[Any] = deque()
        self._gauge = Gauge(f"{stage.label}: messages that are held", stage.size)

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        held = self._held
        if len(held) < self.stage.size or make_room(self.stage.overflow, held):
            held.append(message)
            self._gauge.reached(len(held))
        elif self.stage.overflow == "fail":
            self.fail_stage(
                BufferOverflow(
                    f"actor_ref: the buffer of {self.stage.size} is full; raise size or choose another overflow"
                )
            )
            return
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        held = self._held
        if held and out.can_push:
            out.push([held.popleft() for _ in range(min(len(held), out.asked))])
        if self._completing and not held:
            self.complete_stage()

    def snapshot_state(self) -> str:
        return f"{len(self._held)} held"


class TopicSource(ActorRefSource):
    """Emit the messages published to a topic actor from the start of the run on; up to `buffer` are held while there is no demand.

    Emits when: there is demand and a message is held.   Backpressures when: never; `overflow` decides when `buffer` are held.
    Completes when: never.                        Fails when: the topic ends; with overflow "fail", when `buffer` are held.
    """

    name = "PubSub.source"

    def __init__(self, topic: ActorRef, buffer: int, overflow: str) -> None:
        super().__init__(buffer, overflow, lambda message: False, lambda message: None)
        if not isinstance(topic, ActorRef):
            raise BuildError(f"PubSub.source expects a topic, got {type(topic).__name__} {shortened(topic, 60)}")
        self.topic = topic

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _TopicLogic(self), NOT_USED


class _TopicLogic(_ActorRefLogic):
    def on_start(self) -> None:
        topic = self.stage.topic
        self.actor.watch(topic)
        self.actor.send(topic, Subscribe(self.actor.ref))

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if isinstance(message, ActorTerminated):
            self.fail_stage(ActorError(f"topic {self.stage.topic.name} has ended while the stream was running"))
        else:
            self.on_message(message, sender)

    def on_stop(self) -> None:
        self.actor.send(self.stage.topic, Unsubscribe(self.actor.ref))
        self.actor.unwatch(self.stage.topic)
        super().on_stop()


class ActorRefSourceWithBackpressure(_ActorSource):
    """The stage of `Source.actor_ref_with_backpressure`."""

    name = "actor_ref_with_backpressure"

    def __init__(self, ack: Any, complete_when: Completes | None, fail_when: Fails | None) -> None:
        super().__init__(complete_when, fail_when)
        self.ack = ack

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _AckLogic(self)
        return logic, logic.actor.ref


class _AckLogic(_ActorSourceLogic):
    _held: tuple[Any, ActorRef | None] | None = None

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        if self._held is not None:
            self.fail_stage(
                StreamError(
                    f"{self.name}: {shortened(message, 60)} came before the previous element was acknowledged; "
                    "a sender must wait for the acknowledgement"
                )
            )
            return
        self._held = (message, sender)
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        if self._held is not None and out.can_push:
            message, sender = self._held
            self._held = None
            out.push([message])
            if sender is not None:
                self.actor.send(sender, self.stage.ack)
        if self._completing and self._held is None:
            self.complete_stage()
