"""An island: the stages between two async boundaries, in one actor.

Messages are posted calls (logic, handler, argument[, feedback]), Start and CONTINUE; elements inside are plain calls. The actor's
turn ends when its stages have nothing to do, when another message waits, or when the turn's budget is spent."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamactors.actors.messages import Actor
from streamactors.engine.island.interpreter import Interpreter
from streamactors.engine.island.pace import SliceWatch
from streamactors.engine.island.run import Run
from streamactors.errors import AbruptTermination

if TYPE_CHECKING:
    from streamactors.actors.running.running_actor import RunningActor
    from streamactors.tracing.run_trace import RunTrace


class StartIsland:
    """The first message of an island. The first island of a run sends it on to the others: so a run wakes one thread of the pool,
    not one per island, and that thread runs the whole chain of islands."""

    __slots__ = ("others",)

    def __init__(self, others: Sequence[Island] = ()) -> None:
        self.others = others


class _Continue:
    """Sent by an island to itself when its turn ended before its work."""


class _Abort:
    """Sent when the system shuts down: fail the stages."""

    __slots__ = ("error", "island")

    def __init__(self, island: Island, error: BaseException) -> None:
        self.island = island
        self.error = error


ALONE = StartIsland()
CONTINUE = _Continue()


def traced_interpreter(island: Island, trace: RunTrace) -> Interpreter:
    """Return the interpreter of an island of a traced run."""
    from streamactors.engine.island.traced import TracedInterpreter

    return TracedInterpreter(island, trace)


class Island(Actor):  # type: ignore[misc]  # Thespian is untyped
    """The actor. `tell` may be called from any thread."""

    __slots__ = (
        "_backlog",
        "_continuing",
        "_mailbox",
        "_myRef",
        "_over",
        "_started",
        "_watch",
        "interpreter",
        "run",
    )

    _myRef: RunningActor  # set by the cell; Thespian's name

    def __init__(self, run: Run, watch: SliceWatch, name: str) -> None:
        """Make the island and its actor, which is idle until the first message."""
        self.run = run
        self.interpreter = Interpreter(self) if run.trace is None else traced_interpreter(self, run.trace)
        self._backlog: list[Any] | None = None
        self._started = False
        self._continuing = False
        self._over = False
        self._watch = watch
        run.system.spawn(self, name)
        self._mailbox: deque[Any] = self._myRef.mailbox

    def tell(self, message: Any) -> None:
        """Send the island a message: a posted call, Start or an abort."""
        self._myRef.tell((message, None))

    @staticmethod
    def refuse_letter(message: Any) -> None:
        """Drop a message that comes after the end (a credit, a call, a timer); a call with feedback fails.

        An abort that the shutdown did not wait for is still carried out. Otherwise futures would never fail, and clients that stages
        hold (a producer, a changelog's reader) would keep their threads."""
        if type(message) is tuple and len(message) > 3:
            message[3].try_fail(AbruptTermination(f"stage {message[0].name} has stopped"))
        elif type(message) is _Abort:
            message.island.run.end_outside(message.island, message.error)

    def receiveMessage(self, message: Any, sender: Any) -> None:  # Thespian's name
        """Handle one message, then run the stages as long as there is something to do."""
        interpreter = self.interpreter
        running = self._watch.running
        running.add(interpreter)
        try:
            if type(message) is tuple and self._started:
                interpreter.deliver(message)
            elif message is CONTINUE:
                self._continuing = False
            elif type(message) is _Abort:
                if not self._started:  # the shutdown may leave no time for the island that would start this one
                    self._start(ALONE)
                interpreter.abort(message.error)
            elif not self._started:
                if type(message) is not StartIsland:
                    if self._backlog is None:
                        self._backlog = []
                    self._backlog.append(message)  # from an island that started before this one
                    return
                self._start(message)
            if interpreter.run(self._mailbox) and not self._continuing and not self._call_waits():
                self._continuing = True
                self.tell(CONTINUE)
        finally:
            running.discard(interpreter)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if not self._over and not self.interpreter.alive:
            self._over = True
            self.interpreter.fall_apart()
            del self.interpreter  # breaks the reference cycle, so that both are freed at once
            self.run.island_ended(self)
            self._myRef.end()

    def _call_waits(self) -> bool:
        """Return whether the last message in the mailbox is a posted call. It gives the island another turn, so CONTINUE is not needed."""
        try:
            return type(self._mailbox[-1][0]) is tuple
        except IndexError:  # empty; the system may also have emptied it in the meantime
            return False

    def _start(self, start: StartIsland) -> None:
        """Start the other islands, then the stages, then deliver the messages that came before Start."""
        for island in start.others:
            island.tell(ALONE)
        self._started = True
        interpreter = self.interpreter
        interpreter.start()
        backlog, self._backlog = self._backlog, None
        for early in backlog or ():
            if type(early) is tuple:  # not the request to exit
                interpreter.deliver(early)

    def give_up(self) -> None:
        """End the actor of an island whose run was not built; no stage has started."""
        self._myRef.stop()

    def abort(self, error: BaseException) -> None:
        """Fail every stage with `error`; any thread."""
        self.tell(_Abort(self, error))

    def end_outside(self, error: BaseException) -> None:
        """Fail every stage with `error` on this thread, because the island gets no more turns."""
        if self._over:
            return
        if not self._started:
            self._start(ALONE)
        self.interpreter.abort(error)
        self._end_if_over()
