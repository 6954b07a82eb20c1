"""An island: the stages between two async boundaries, in one actor.

Messages are posted calls (logic, handler, argument[, feedback]), START and CONTINUE; elements inside are plain calls. The actor's
turn ends when its stages have nothing to do, when another message waits, or when the turn's budget is spent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import Actor
from streamactors.engine.interpreter import Interpreter
from streamactors.engine.logic import Logic
from streamactors.engine.pace import SliceWatch
from streamactors.errors import AbruptTermination

if TYPE_CHECKING:
    from streamactors.actors.actor_cell import ActorCell
    from streamactors.engine.run import Run


class _Start:
    """The first message of an island."""


class _Continue:
    """An island's note to itself: there was more to do."""


class _Abort:
    """The system ends: fail what runs."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


START = _Start()
CONTINUE = _Continue()


class IslandActor(Actor):  # type: ignore[misc]  # Thespian is untyped
    """The actor of an island; all it does is in `Island`."""

    def __init__(self, island: Island) -> None:
        super().__init__()
        self._receive = island.receive

    def receiveMessage(self, message: Any, sender: Any) -> None:  # Thespian's name
        self._receive(message)

    @staticmethod
    def refuse_letter(message: Any) -> None:
        """What comes after the end (credits, calls, timers) is nobody's loss; only who waits for feedback is told."""
        if type(message) is tuple and len(message) > 3:
            message[3].try_fail(AbruptTermination(f"stage {message[0].name} has stopped"))


class Island:
    """The actor's behaviour. `tell` may be called from any thread."""

    __slots__ = (
        "__weakref__",
        "_actor",
        "_backlog",
        "_continuing",
        "_mailbox",
        "_over",
        "_started",
        "_watch",
        "interpreter",
        "logics",
        "run",
        "tell",
    )

    def __init__(self, run: Run, watch: SliceWatch) -> None:
        self.run = run
        self.interpreter = Interpreter(self)
        self.logics: list[Logic] = []
        self._backlog: list[Any] | None = None
        self._started = False
        self._continuing = False
        self._over = False
        self._watch = watch

    def start_actor(self, name: str) -> None:
        """Give the island its actor. It is idle until it is told something."""
        actor = IslandActor(self)
        ref: ActorRef = self.run.system.spawn(actor, name)
        self._actor: ActorCell = actor._myRef
        self._mailbox: deque[Any] = self._actor.mailbox
        self.tell: Callable[[Any], None] = ref.tell

    def receive(self, message: Any) -> None:
        """Handle one message, then run the stages as long as there is something to do."""
        interpreter = self.interpreter
        running = self._watch.running
        running.add(interpreter)
        try:
            if message is CONTINUE:
                self._continuing = False
            elif not self._started:
                if message is not START:
                    if self._backlog is None:
                        self._backlog = []
                    self._backlog.append(message)  # from an island that started before this one
                    return
                self._started = True
                interpreter.add(self.logics)
                if self._backlog:
                    for early in self._backlog:
                        interpreter.deliver(early)
                    self._backlog = None
            elif type(message) is _Abort:
                interpreter.abort(message.error)
            elif type(message) is tuple:  # not the request to exit
                interpreter.deliver(message)
            if interpreter.run(self._mailbox) and not self._continuing:
                self._continuing = True
                self.tell(CONTINUE)
        finally:
            running.discard(interpreter)
        if not interpreter.alive and not self._over:
            self._over = True
            self.logics.clear()
            interpreter.fall_apart()
            del self.interpreter  # which knows its island: nothing comes here any more, and both can go at once
            self.run.island_ended(self)
            self._actor.end()

    def abort(self, error: BaseException) -> None:
        """Fail every stage with `error`; any thread."""
        self.tell(_Abort(error))
