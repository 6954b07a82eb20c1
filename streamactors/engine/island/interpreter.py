"""The interpreter: runs the stages of one island, one event at a time.

A FIFO of connections, one flag each. One visit of a connection is at most one on_pull, one on_push, the marks after it, then the
terminal. There is no recursion, so a chain may have thousands of stages, and a busy cycle does not starve the other connections.
Owner: the island's actor. `run` returns when nothing is left to do, after `EVENTS_PER_TURN` events, or when a message waits."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.island.connection import COMPLETED, MAX_ASKED, Connection
from streamactors.errors import AbruptTermination
from streamactors.log_limit import alike, log_limited

if TYPE_CHECKING:
    from streamactors.engine.island.island import Island
    from streamactors.engine.logic import Logic

log = logging.getLogger("streamactors.engine")

EVENTS_PER_TURN = 1_000
SECONDS_PER_TURN = 0.02


class Interpreter:
    """The queue of one island's connections, and the loop that visits them."""

    __slots__ = (
        "__weakref__",
        "active",
        "alive",
        "fifo",
        "in_slice",
        "island",
        "logics",
        "max_asked",
        "slice_no",
        "stop_slice",
        "to_end",
        "when_idle",
    )

    working_on: Any = None
    """In a traced run: the sampled records that the handler works on that runs, for `work_on`."""

    def __init__(self, island: Island) -> None:
        self.island = island
        self.fifo: deque[Connection] = deque()
        self.when_idle: deque[tuple[Logic, Callable[[], None]]] | None = None  # see `call_when_idle`
        self.logics: list[Logic] = []
        self.alive = 0
        self.active: Logic | None = None
        self.to_end: list[Logic] = []
        self.max_asked = MAX_ASKED
        self.slice_no = 0
        self.in_slice = False
        self.stop_slice: list[int] = []  # non-empty: the slice that runs should end after its current element

    # ── start and end of stages ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the stages in `logics`, whose connections are bound, in order."""
        self.alive = len(self.logics)
        for logic in self.logics.copy():  # a stage that starts an inner graph adds to it
            self._guarded(logic, logic.on_start)
        self._end_stages()

    def add_inside(self, logics: Sequence[Logic]) -> None:
        """Add and start stages from within a handler of another stage of this island."""
        if len(self.logics) > 2 * self.alive + 64:  # forget the sub-streams that have ended
            self.logics = [logic for logic in self.logics if not logic.stopped]
        self.logics.extend(logics)
        self.alive += len(logics)
        for logic in logics:
            self._guarded(logic, logic.on_start)

    def ended(self, logic: Logic) -> None:
        """All ports of a stage have closed; it is stopped after the handler that is running."""
        if not logic.stopped:
            self.to_end.append(logic)

    def work_on(self, records: Any) -> None:
        """The handler that runs continues the work on these records (`working_on` of an earlier handler). Nothing where no traces are installed."""

    def call_when_idle(self, logic: Logic, handler: Callable[[], None]) -> None:
        """Call `handler` once, when the island has nothing else to do."""
        if self.when_idle is None:
            self.when_idle = deque()
        self.when_idle.append((logic, handler))

    def _end_stages(self) -> None:
        while self.to_end:
            logic = self.to_end.pop()
            if logic.stopped or logic._open_ports > 0 or logic.keep_going:
                continue
            self.alive -= 1
            try:
                logic.stop()
            except BaseException as error:  # noqa: BLE001 - the ports of the stage are closed, so the error can only be logged
                self._log(logic, "stage %s raised in on_stop", error)

    def _guarded(self, logic: Logic, handler: Callable[..., None], *arguments: Any) -> None:
        self.active = logic
        try:
            handler(*arguments)
        except BaseException as error:  # noqa: BLE001  # only this stage fails
            self._failed(error)
        self.active = None

    def _failed(self, error: BaseException) -> None:
        logic = self.active
        assert logic is not None
        log.debug("stage %s failed", logic.name, exc_info=error)
        try:
            logic.fail_stage(error)
        except BaseException as another:  # noqa: BLE001 - logged
            self._log(logic, "stage %s raised while failing", another)

    def _log(self, logic: Logic, message: str, error: BaseException) -> None:
        log_limited(log, logging.ERROR, (logic.name, type(error), alike(error)), message, logic.name, exc_info=error)

    def abort(self, error: BaseException) -> None:
        """End every stage with `error`; used when the system shuts down."""
        for logic in self.logics:
            if not logic.stopped:
                self._guarded(logic, logic.fail_stage, error)
                logic.keep_going = False
                logic._open_ports = 0
                self.to_end.append(logic)
        self._end_stages()
        self.fifo.clear()

    def fall_apart(self) -> None:
        """All stages have stopped: break the cycles between stages and connections, so that a run is freed at once."""
        for logic in self.logics:
            for inlet in logic.inlets:
                del inlet.consumer
            for out in logic.outlets:
                del out.producer
        self.logics = []
        self.active = None
        self.fifo.clear()

    # ── input from other threads ──────────────────────────────────────────────────────────────────────────────────

    def post(self, logic: Logic, handler: Callable[[Any], None], argument: Any) -> None:
        """Run `handler(argument)` on this island. Any thread."""
        self.island.tell((logic, handler, argument))

    def post_with_feedback(self, logic: Logic, handler: Callable[[Any], None], argument: Any) -> Any:
        """As `post`; return a future that completes when the handler has returned, and fails with its error."""
        feedback: StreamFuture[None] = StreamFuture()

        def run(argument: Any) -> None:
            try:
                handler(argument)
            except BaseException as error:
                feedback.try_fail(error)
                raise
            feedback.try_complete(None)

        self.island.tell((logic, run, argument, feedback))
        return feedback

    def call_later(self, delay_ms: float, logic: Logic, handler: Callable[[Any], None], argument: Any) -> Any:
        """Run `handler(argument)` on this island after `delay_ms`; return a timer with `cancel()`."""
        island = self.island
        return island.run.system.timers.call_later(delay_ms, lambda: island.tell((logic, handler, argument)))

    def now_ms(self) -> float:
        """Return the system clock's monotonic time in ms."""
        now: float = self.island.run.system.clock.now_ms()
        return now

    def deliver(self, message: tuple[Any, ...]) -> None:
        """Carry out one posted call."""
        logic: Logic = message[0]
        if logic.stopped:
            if len(message) > 3:
                message[3].try_fail(AbruptTermination(f"stage {logic.name} has stopped"))
            return
        self._guarded(logic, message[1], message[2])
        if self.to_end:
            self._end_stages()

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, mailbox: deque[Any]) -> bool:
        """Work until nothing is left; return True when there is more to do (the turn is over or a message waits)."""
        fifo = self.fifo
        visit = self.visit
        budget = EVENTS_PER_TURN
        deadline = 0.0
        while True:
            while fifo:
                if mailbox:
                    return True
                visit(fifo.popleft())
                budget -= 1
                if not budget & 15:
                    now = perf_counter()
                    if not deadline:
                        deadline = now + SECONDS_PER_TURN
                    elif budget <= 0 or now > deadline:
                        return bool(fifo) or bool(self.when_idle)
            if not self.when_idle:
                return False
            if mailbox:
                return True  # the island is not idle: a message waits
            logic, handler = self.when_idle.popleft()
            if not logic.stopped:
                self._guarded(logic, handler)
                if self.to_end:
                    self._end_stages()

    def visit(self, c: Connection) -> None:
        """One event of one connection."""
        try:
            if c.cause is not None:
                if c.cancel_due:
                    c.cancel_due = False
                    self.active = producer = c.producer
                    if c.terminal is None:
                        producer.port_closed()
                        producer.on_cancel(c, c.cause)
                    elif not producer.stopped:  # only where it keeps what is left
                        producer.on_cancel(c, c.cause)
            else:
                if c.pull_due:
                    c.pull_due = False
                    if c.asked and c.terminal is None:
                        self.active = c.producer
                        c.producer.on_pull(c)
                items = c.items
                self.active = consumer = c.consumer
                if c.terminal is None or c.terminal is COMPLETED:
                    if items and not c.held:
                        if c.wanting and type(items[0]) is list:
                            c.wanting = False
                            if c.stamps:
                                c.begin_stamped()
                            consumer.on_push(c)
                        while items and type(items[0]) is not list and not c.held:
                            consumer.on_mark(c, c.take_mark() if c.stamps else items.popleft())
                    if not items and c.terminal is not None and not c.held and not c.finished and c.cause is None:
                        c.finished = True
                        consumer.port_closed()
                        consumer.on_complete(c)
                        if c.keeps_left and not c.producer.stopped:
                            self.active = c.producer
                            c.producer.on_taken(c)
                elif not c.finished:
                    self._visit_failed(c, c.terminal)  # type: ignore[arg-type]  # not completed, so an error
        except BaseException as error:  # noqa: BLE001  # a handler raised: only its stage fails
            self._failed(error)
        # visit it again?
        if (
            c.cancel_due
            or (c.pull_due and c.cause is None)
            or (
                c.cause is None
                and not c.finished
                and (
                    (
                        not c.held
                        and ((c.wanting or type(c.items[0]) is not list) if c.items else c.terminal is not None)
                    )
                    or (c.terminal is not None and c.terminal is not COMPLETED)
                )
            )
        ):
            self.fifo.append(c)
        else:
            c.queued = False
        if self.to_end:
            self._end_stages()

    def _visit_failed(self, c: Connection, error: BaseException) -> None:
        """The producer has failed: call `on_push` as long as the consumer takes elements, then `on_fail`."""
        items = c.items
        consumer = c.consumer
        if items and not c.held:
            if c.wanting and type(items[0]) is list:
                c.wanting = False
                before = c.ready
                consumer.on_push(c)
                taken = c.ready < before
            else:
                taken = type(items[0]) is not list
            while items and type(items[0]) is not list and not c.held:
                consumer.on_mark(c, c.take_mark() if c.stamps else items.popleft())
            if c.cause is not None or (taken and items and c.wanting and not c.held):
                return  # visited again
        if c.cause is None:
            items.clear()
            c.ready = 0
            c.finished = True
            consumer.port_closed()
            consumer.on_fail(c, error)
