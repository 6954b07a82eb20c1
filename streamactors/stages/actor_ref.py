"""Sources fed by actors: messages told to the materialized address become elements.

`actor_ref` keeps a bounded buffer and needs an overflow strategy; `actor_ref_with_backpressure` acknowledges each element when it has gone
downstream. Both end on the messages StreamCompleted and StreamFailed, on ActorExitRequest, and on what the user's matchers say."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import ActorExitRequest
from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_actor import StageActor
from streamactors.engine.user_code import shortened
from streamactors.errors import BufferOverflow, BuildError, StreamError
from streamactors.stages.checks import plain_function, positive

OVERFLOW = ("drop_head", "drop_tail", "drop_buffer", "drop_new", "fail")


@dataclass(frozen=True)
class StreamCompleted:
    """Told to a stream's source: complete, behind what it holds. Told by a sink to its actor: the stream has completed."""


@dataclass(frozen=True)
class StreamFailed:
    """Told to a stream's source: fail with `error`. Told by a sink to its actor: the stream has failed."""

    error: BaseException


Completes = Callable[[Any], bool]
Fails = Callable[[Any], BaseException | None]


def _completed(message: Any) -> bool:
    return isinstance(message, StreamCompleted)


def _failed(message: Any) -> BaseException | None:
    return message.error if isinstance(message, StreamFailed) else None


class _Matchers:
    """Which messages end the stream."""

    def __init__(self, operator: str, completes: Completes | None, fails: Fails | None) -> None:
        self.completes = _completed if completes is None else plain_function(f"{operator}: complete_when", completes)
        self.fails = _failed if fails is None else plain_function(f"{operator}: fail_when", fails)


class _ActorSourceLogic(SourceLogic):
    """A source with an address."""

    def __init__(self, matchers: _Matchers) -> None:
        self._matchers = matchers
        self._completing = False
        self.actor = StageActor(self, self._received)

    def _received(self, message: Any, sender: ActorRef | None) -> None:
        if self._completing:
            return  # nothing is taken behind the end
        error = self._matchers.fails(message)
        if error is not None:
            self.fail_stage(error)
        elif isinstance(message, ActorExitRequest) or self._matchers.completes(message):
            self._completing = True
            self.on_pull(self.out)
        else:
            self.on_message(message, sender)

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        """Take an element."""

    def on_stop(self) -> None:
        self.actor.stop()


class ActorRefSource(GraphStage):
    """Emit the messages told to the materialized ActorRef.

    Emits when: there is demand and a message is held.   Backpressures when: never; it holds `size` messages, then `overflow` rules.
    Completes when: StreamCompleted (or what `complete_when` matches) is told, behind what is held.
    Fails when: StreamFailed (or what `fail_when` matches) is told; with overflow "fail" when full.
    """

    shape = SOURCE
    name = "actor_ref"

    def __init__(self, size: int, overflow: str, complete_when: Completes | None, fail_when: Fails | None) -> None:
        self._size = positive(self.name, "size", size)
        if overflow not in OVERFLOW:
            raise BuildError(f"actor_ref: overflow must be one of {', '.join(OVERFLOW)}, got {shortened(overflow, 60)}")
        self._overflow = overflow
        self._matchers = _Matchers(self.name, complete_when, fail_when)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ActorRefLogic(self._size, self._overflow, self._matchers)
        return logic, logic.actor.ref


class _ActorRefLogic(_ActorSourceLogic):
    def __init__(self, size: int, overflow: str, matchers: _Matchers) -> None:
        super().__init__(matchers)
        self._size = size
        self._overflow = overflow
        self._held: deque[Any] = deque()

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        held = self._held
        if len(held) < self._size:
            held.append(message)
        elif self._overflow == "drop_head":
            held.popleft()
            held.append(message)
        elif self._overflow == "drop_tail":
            held[-1] = message
        elif self._overflow == "drop_buffer":
            held.clear()
            held.append(message)
        elif self._overflow == "fail":
            self.fail_stage(
                BufferOverflow(f"actor_ref: the buffer of {self._size} is full; raise size or choose another overflow")
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


class ActorRefSourceWithBackpressure(GraphStage):
    """Emit the messages told to the materialized ActorRef; answer each sender with `ack` when its element has gone downstream.

    Emits when: there is demand and a message has come.   Backpressures when: no acknowledgement is sent.
    Completes when: StreamCompleted (or what `complete_when` matches) is told, behind what is held.
    Fails when: StreamFailed (or what `fail_when` matches) is told; when a message comes before the last one was acknowledged.
    """

    shape = SOURCE
    name = "actor_ref_with_backpressure"

    def __init__(self, ack: Any, complete_when: Completes | None, fail_when: Fails | None) -> None:
        self._ack = ack
        self._matchers = _Matchers(self.name, complete_when, fail_when)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _AckLogic(self._ack, self._matchers)
        return logic, logic.actor.ref


class _AckLogic(_ActorSourceLogic):
    def __init__(self, ack: Any, matchers: _Matchers) -> None:
        super().__init__(matchers)
        self._ack = ack
        self._held: tuple[Any, ActorRef | None] | None = None

    def on_message(self, message: Any, sender: ActorRef | None) -> None:
        if self._held is not None:
            self.fail_stage(
                StreamError(
                    f"{self.name}: {shortened(message, 60)} came before the element ahead of it was acknowledged; "
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
                self.actor.send(sender, self._ack)
        if self._completing and self._held is None:
            self.complete_stage()
