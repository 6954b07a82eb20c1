"""ask, ask_with_status: each element as a question to an actor, and its answers as the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import ActorAddress
from streamactors.actors.status_reply import StatusReply
from streamactors.durations import Duration
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.asynchronous.calls import Call
from streamactors.stages.asynchronous.map_async import OrderedLogic
from streamactors.stages.checks import positive, span_ms


class Ask(Stage[In, Out]):
    """The stage of `Source.ask`."""

    handling = EXACT

    status = False
    """True when the actor answers with StatusReply."""

    def __init__(
        self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2, *, pairs: bool = False
    ) -> None:
        if not isinstance(actor, ActorAddress):
            order = "; the order is ask(actor, timeout, parallelism)" if isinstance(actor, int) else ""
            raise BuildError(
                f"ask expects the address of an actor, got {type(actor).__name__} {shortened(actor, 60)}{order}"
            )
        self.actor: ActorRef = actor
        self.timeout_ms = span_ms("ask", "timeout", timeout)
        self.parallelism = positive("ask", "parallelism", parallelism)
        self.pairs = pairs  # elements are pairs (element, context): the actor gets the element, the context stays


class AskWithStatus(Ask[In, Out]):
    """The stage of `Source.ask_with_status`."""

    status = True


@logic_of(Ask)
class _AskLogic(OrderedLogic):
    here = True

    def function(self) -> Callable[[Any], Any]:
        return self._ask

    def _ask(self, element: Any) -> Any:
        question = element[0] if self.stage.pairs else element
        return self.interpreter.island.run.system.ask(self.stage.actor, question, self.stage.timeout_ms / 1_000)

    def _on_ended(self, calls: list[Call]) -> None:
        stage = self.stage
        if stage.status or stage.pairs:
            for call in calls:
                if stage.status and call.error is None:
                    call.value, call.error = _unwrapped(call.value)
                if stage.pairs and call.error is None:
                    call.value = (call.value, call.element[1])
        super()._on_ended(calls)


def _unwrapped(reply: Any) -> tuple[Any, BaseException | None]:
    """Return (value, None) or (None, error)."""
    if isinstance(reply, StatusReply):
        return reply.value, reply.failure
    return None, TypeError(
        f"ask_with_status expects the actor to answer with a StatusReply, it sent {type(reply).__name__} {shortened(reply, 60)}"
    )
