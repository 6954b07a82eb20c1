"""Logic: the running state of one stage, and the handlers the interpreter calls.

Chunk stages subclass `Logic` (or `FlowLogic`, `SourceLogic`, `SinkLogic`); per-element stages subclass `GraphStageLogic` (engine/element/).
Owner: the island's interpreter; every handler runs on the island's turn, never two at once. A stage that can take more must call `want`
again before its handler returns: `on_push` is called for elements left at an inlet only after another `want`."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.island.causes import STAGE_COMPLETED, propagate_failure
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.interpreter import Interpreter
from streamactors.engine.marks.marks import Mark
from streamactors.errors import AbruptTermination, ProtocolError

T = TypeVar("T")
L = TypeVar("L", bound="Logic")

CANCELLED: Final = (asyncio.CancelledError, concurrent.futures.CancelledError)


class AsyncCallback(Generic[T]):
    """A handle by which any thread can call into a stage: `invoke` runs the handler on the stage's island.

    Before the stage starts calls are queued; after it has stopped `invoke` does nothing and `invoke_with_feedback` fails."""

    __slots__ = ("_handler", "_logic")

    def __init__(self, logic: Logic, handler: Callable[[T], None]) -> None:
        self._logic = logic
        self._handler = handler

    def invoke(self, argument: T) -> None:
        """Run the handler with `argument` on the stage's island, later."""
        self._logic.interpreter.post(self._logic, self._handler, argument)

    __call__ = invoke

    def invoke_with_feedback(self, argument: T) -> Any:
        """As `invoke`; return a future that ends when the handler ran, and fails if it raised or the stage had stopped."""
        return self._logic.interpreter.post_with_feedback(self._logic, self._handler, argument)


class Logic:
    """State and handlers of one stage in one run. The defaults are Akka's: completion completes, failure fails, cancel cancels."""

    inlets: list[Connection]
    outlets: list[Connection]
    interpreter: Interpreter
    attributes: Attributes = NONE
    name: str = "stage"
    keep_going: bool = False
    """True keeps the stage alive after all its ports have closed, until complete_stage or fail_stage."""
    passes_marks: bool = False
    one_result_each: bool = False
    """True for a flow that pushes one result for each element, in order and at once, from some element on."""
    only_waits: bool = False
    """True for a stage in which elements wait and nothing is done with them: a boundary, a buffer."""
    last_hop: str = ""
    """What happens at a sink after an element has come to it, if that is a hop of its own in the table of latencies: "Spark's batch"."""
    stopped: bool = False
    inside: bool = False
    """True for a stage of a graph that another stage runs inside itself."""
    replaces_inside: bool = False
    """True for a stage that runs one inner graph at a time, so that the sinks of the last one hold no progress back any more."""
    failure: BaseException | None = None
    """The error with which the stage has failed."""
    when_stopped: Callable[[BaseException | None], None] | None = None
    """Called with `failure` when the stage has ended; on the stage's island."""
    busy_ticks: int = 0
    """The number of looks of the pool's watch, every 3 ms or so, that found the island inside a handler of this stage."""
    failures: int = 0
    """The number of elements that supervision has dropped because the stage's function raised."""
    inside_of: str = ""
    """The name of the stage that has started the stage while the stream runs, such as the `group_by` of a substream; else empty."""
    _open_ports: int = 0
    _timers: dict[object, tuple[object, Any]] | None = None
    """By key: what the timer gives to `_fire`, and the timer."""

    def __init__(self, stage: Any = None) -> None:
        self.stage = stage
        """The stage, whose attributes are the parameters of the operator; a subclass says its type."""

    @property
    def paused(self) -> tuple[str, ...]:
        """The names of a source's partitions if the user has paused all of them, else nothing: the stream then waits for the user. Any thread."""
        return ()

    def told_limit(self) -> str:
        """What a stage that lets fewer elements pass on purpose has been told, such as `lets 100 elements a second pass`; else empty. Any thread."""
        return ""

    def outside_wait(self) -> str:
        """What the elements that the stage holds wait for, as in `until the broker acknowledges its records`; empty: not known. Any thread."""
        return ""

    def common_name(self) -> str:
        """The name of all stages of this kind, where the name of each tells which one it is, as sources of partitions do; else empty."""
        return ""

    # ── handlers, to be overridden ────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        """Called once, before anything else. Ports may be used from here on."""

    def on_pull(self, out: Connection) -> None:
        """Downstream has demand: `out.asked` elements may be pushed."""

    def on_push(self, in_: Connection) -> None:
        """Elements are ready at an inlet for which the stage has called `want`."""

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        """A mark has arrived after everything grabbed so far. Default: forward at once, if the stage passes marks."""
        if self.passes_marks:
            for out in self.outlets:
                out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        """Upstream has ended and everything before was grabbed."""
        self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        """Upstream has failed."""
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        """Downstream has cancelled, for the reason `cause`."""
        self.cancel_stage(cause)

    def on_taken(self, out: Connection) -> None:
        """Downstream has taken everything and seen the completion of a connection for which `keep_left` was called."""

    def wait_for_side_sinks(self, sinks: list[Logic]) -> None:
        """Called before the start of a stage that `has_sides`, with the sinks downstream of its side outlets."""

    def on_timer(self, key: object) -> None:
        """The timer `key` is due."""

    def on_stop(self) -> None:
        """Called exactly once, when the stage has ended for whatever reason. Release resources here."""

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────

    def complete_stage(self) -> None:
        """Cancel all inlets, then complete all outlets."""
        for inlet in self.inlets:
            inlet.cancel(STAGE_COMPLETED)
        for out in self.outlets:
            out.complete()
        self._finish()

    def fail_stage(self, error: BaseException) -> None:
        """Cancel all inlets with `error`, then fail all outlets with it.

        The shutdown of the system cancels coroutines before the streams hear of it: their CancelledError means the shutdown."""
        if isinstance(error, CANCELLED) and not self.interpreter.island.run.system.running:
            cancelled, error = error, AbruptTermination("the actor system was shut down while the stream was running")
            error.__cause__ = cancelled
        self.failure = error
        for inlet in self.inlets:
            inlet.cancel(error)
        for out in self.outlets:
            out.fail(error)
        self._finish()

    def cancel_stage(self, cause: BaseException) -> None:
        """End as the cancellation strategy says: by default a failure fails the stage, anything else completes it."""
        error = (self.attributes.cancellation or propagate_failure)(cause)
        inlet_cause = cause
        for inlet in self.inlets:
            inlet.cancel(inlet_cause)
        for out in self.outlets:
            if error is None:
                out.complete()
            else:
                out.fail(error)
        self._finish()

    def _finish(self) -> None:
        self.keep_going = False
        if self._open_ports <= 0:
            self.interpreter.ended(self)

    def port_closed(self) -> None:
        """Called by a connection when this stage's side of it has closed."""
        self._open_ports -= 1
        if self._open_ports <= 0 and not self.keep_going:
            self.interpreter.ended(self)

    # ── async input ───────────────────────────────────────────────────────────────────────────────────────────────

    def async_callback(self, handler: Callable[[T], None]) -> AsyncCallback[T]:
        """Return a thread-safe handle that runs `handler` on this stage's island."""
        return AsyncCallback(self, handler)

    def call_when_idle(self, handler: Callable[[], None]) -> None:
        """Call `handler` once, when the island has nothing else to do."""
        self.interpreter.call_when_idle(self, handler)

    # ── timers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def schedule_once(self, key: object, delay_ms: float) -> None:
        """Call `on_timer(key)` once after `delay_ms`. A timer of the same key is replaced. Timers end with the stage."""
        self.cancel_timer(key)
        self._set_timer(delay_ms, key, None)

    def schedule_periodically(self, key: object, initial_ms: float, interval_ms: float) -> None:
        """Call `on_timer(key)` after `initial_ms` and then every `interval_ms`, at a fixed rate."""
        self.cancel_timer(key)
        due = self.interpreter.now_ms() + initial_ms
        self._set_timer(initial_ms, key, (due, interval_ms))

    def _set_timer(self, delay_ms: float, key: object, periodic: tuple[float, float] | None) -> None:
        what = (key, periodic)
        if self._timers is None:
            self._timers = {}
        self._timers[key] = what, self.interpreter.call_later(delay_ms, self, self._fire, what)

    def _fire(self, what: tuple[object, tuple[float, float] | None]) -> None:
        key, periodic = what
        timers = self._timers or {}
        known = timers.get(key)
        if known is None or known[0] is not what:
            return  # cancelled, or set again, after its message was sent
        if periodic is None:
            del timers[key]
        else:
            due, interval_ms = periodic
            now = self.interpreter.now_ms()
            due += interval_ms
            if due < now:  # the island was busy: skip the missed firings instead of a burst
                due = now + interval_ms - (now - due) % interval_ms
            self._set_timer(due - now, key, (due, interval_ms))
        self.on_timer(key)

    def cancel_timer(self, key: object) -> None:
        """Cancel a timer; nothing happens when there is none."""
        if self._timers:
            known = self._timers.pop(key, None)
            if known is not None:
                known[1].cancel()

    def is_timer_active(self, key: object) -> bool:
        """Return True while a timer of that key is set."""
        return bool(self._timers) and key in self._timers  # type: ignore[operator]

    def stop(self) -> None:
        """Cancel the timers and call `on_stop`; the interpreter calls this once."""
        self.stopped = True
        if self._timers:
            for _, timer in self._timers.values():
                timer.cancel()
            self._timers = None
        try:
            self.on_stop()
        finally:
            if self.failure is not None and not self.inside:
                self.interpreter.island.run.progress.sink_failed(self, self.failure)
            if self.when_stopped is not None:
                self.when_stopped(self.failure)
                self.when_stopped = None

    # ── for the snapshot ──────────────────────────────────────────────────────────────────────────────────────────

    def snapshot_state(self) -> str:
        """Return a few words on what the stage is doing now; empty by default."""
        return ""


def logic_of(*stages: type) -> Callable[[type[L]], type[L]]:
    """Return a class decorator: the stages run by the decorated logic, which is made with the stage."""

    def decorate(cls: type[L]) -> type[L]:
        def logic(self: Any) -> Logic:
            """Return a fresh logic."""
            return cls(self)

        for stage in stages:
            stage.logic = logic  # type: ignore[attr-defined]
        return cls

    return decorate


class SourceLogic(Logic):
    """A stage with one outlet, `self.out`."""

    @property
    def out(self) -> Connection:
        return self.outlets[0]


class FlowLogic(Logic):
    """A stage with one inlet `self.in_` and one outlet `self.out`. Default: downstream's demand is passed upstream."""

    in_: Connection
    out: Connection

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self.out = self.outlets[0]

    def on_pull(self, out: Connection) -> None:
        self.in_.want(out.asked)


def bind(logic: Logic, interpreter: Interpreter, inlets: list[Connection], outlets: list[Connection]) -> None:
    """Give a fresh logic its connections."""
    logic.interpreter = interpreter
    logic.inlets = inlets
    logic.outlets = outlets
    logic._open_ports = len(inlets) + len(outlets)
    if not logic._open_ports and not logic.keep_going:
        raise ProtocolError(f"stage {logic.name} has no ports")
    for index, inlet in enumerate(inlets):
        inlet.consumer = logic
        inlet.in_index = index
    for index, outlet in enumerate(outlets):
        outlet.producer = logic
        outlet.out_index = index
    late = getattr(logic, "bind", None)
    if late is not None:
        late()
