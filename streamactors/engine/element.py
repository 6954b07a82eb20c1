"""GraphStageLogic: the per-element way to write a stage, with the port laws of Akka Streams.

    class Duplicate(Stage[T, T]):
        def logic(self):
            return DuplicateLogic()

    class DuplicateLogic(GraphStageLogic):
        def on_push(self, inlet):
            element = self.grab(inlet)
            self.emit_multiple(self.outlets[0], [element, element])
        def on_pull(self, outlet):
            self.pull(self.inlets[0])

A port is pulled once per element, pushed once per pull. Underneath, elements still arrive and leave in chunks: a pulled inlet is
fed from the chunk at hand, and what is pushed leaves together when the handlers have run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.causes import NO_MORE_ELEMENTS, STAGE_COMPLETED, propagate_failure
from streamactors.engine.connection import Connection
from streamactors.engine.logic import AsyncCallback, Logic, T
from streamactors.engine.marks import Mark
from streamactors.engine.pace import Pace
from streamactors.engine.user_code import blame
from streamactors.errors import ProtocolError

if TYPE_CHECKING:
    from streamactors.actors.address import ActorRef
    from streamactors.engine.stage_actor import StageActor

_NONE = object()


class Inlet:
    """An input port as a per-element stage sees it."""

    __slots__ = ("connection", "element", "finished", "handler", "name", "pulled", "reader", "stage")

    def __init__(self, name: str) -> None:
        self.name = name
        self.connection: Connection
        self.stage: GraphStageLogic
        self.element: Any = _NONE
        self.pulled = False
        self.finished = False
        self.reader: tuple[Callable[[Any], None], Callable[[], None] | None] | None = None
        self.handler: Callable[[Inlet], None]

    def __repr__(self) -> str:
        return f"Inlet({self.name})"


class Outlet:
    """An output port as a per-element stage sees it."""

    __slots__ = ("buffer", "connection", "emitting", "finishing", "handler", "name", "pulled", "stage")

    def __init__(self, name: str) -> None:
        self.name = name
        self.connection: Connection
        self.stage: GraphStageLogic
        self.pulled = False
        self.buffer: list[Any] = []
        self.emitting: deque[tuple[Any, Callable[[], None] | None]] = deque()
        self.finishing = False  # complete once everything emitted has gone
        self.handler: Callable[[Outlet], None]

    def __repr__(self) -> str:
        return f"Outlet({self.name})"


class GraphStageLogic:
    """State and handlers of a per-element stage. Override the `on_…` methods, or give a port its own with `set_handler`.

    `inlets` and `outlets` are the ports; one-port shortcuts are `self.in_` and `self.out`."""

    prefetch: int | None = None
    """Elements asked of upstream while an inlet is pulled; None follows downstream's demand, 1 is Akka's lock-step."""
    inlets: list[Inlet]
    outlets: list[Outlet]
    attributes: Attributes = NONE
    name = "stage"
    _logic: ElementLogic | None = None

    # ── handlers, to be overridden ────────────────────────────────────────────────────────────────────────────────

    def pre_start(self) -> None:
        """Called once before anything else; ports, timers and callbacks may be used from here on."""

    def post_stop(self) -> None:
        """Called exactly once when the stage has ended, for whatever reason."""

    def on_push(self, inlet: Inlet) -> None:
        """An element lies at the inlet: `grab` it."""
        raise ProtocolError(f"stage {self.name} has an inlet {inlet.name} and defines no on_push")

    def on_pull(self, outlet: Outlet) -> None:
        """Downstream asks for an element: `push` one now or later."""
        if len(self.inlets) == 1 and not self.has_been_pulled(self.inlets[0]) and not self.is_closed(self.inlets[0]):
            self.pull(self.inlets[0])

    def on_upstream_finish(self, inlet: Inlet) -> None:
        """Upstream has completed. Default: complete the stage."""
        self.complete_stage()

    def on_upstream_failure(self, inlet: Inlet, error: BaseException) -> None:
        """Upstream has failed. Default: fail the stage."""
        self.fail_stage(error)

    def on_downstream_finish(self, outlet: Outlet, cause: BaseException) -> None:
        """Downstream has cancelled. Default: end the stage as the cancellation strategy says."""
        self.cancel_stage(cause)

    def on_timer(self, key: object) -> None:
        """The timer `key` is due."""

    def on_mark(self, inlet: Inlet, mark: Mark) -> None:
        """A mark has passed the inlet. Default: forward at once; a stage that holds elements keeps it until they have left."""
        for outlet in self.outlets:
            self.mark(outlet, mark)

    # ── ports ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def in_(self) -> Inlet:
        return self.inlets[0]

    @property
    def out(self) -> Outlet:
        return self.outlets[0]

    def pull(self, inlet: Inlet) -> None:
        """Ask for one element. Raises ProtocolError when the port is pulled already or closed."""
        if inlet.pulled or inlet.finished:
            self._running()
            if inlet.pulled:
                raise ProtocolError(f"Cannot pull port ({inlet.name}) twice")
            raise ProtocolError(f"Cannot pull closed port ({inlet.name})")
        inlet.element = _NONE
        inlet.pulled = True
        logic = self._logic
        if logic is None:
            raise ProtocolError(_NOT_YET)
        if not logic.feeding:
            logic.ask(inlet)

    def try_pull(self, inlet: Inlet) -> None:
        """As `pull`, but nothing happens when the port is closed."""
        if not inlet.finished:
            self.pull(inlet)

    def grab(self, inlet: Inlet) -> Any:
        """Take the element that was pushed. Raises ProtocolError when there is none."""
        element = inlet.element
        if element is _NONE:
            self._running()
            raise ProtocolError(f"Cannot get element from already empty input port ({inlet.name})")
        inlet.element = _NONE
        return element

    def push(self, outlet: Outlet, element: Any) -> None:
        """Send one element. Raises ProtocolError when downstream has not pulled, or the port is closed."""
        if not outlet.pulled:
            self._running()
            if outlet.connection.cause is not None:
                return  # downstream has gone: dropped silently
            if outlet.connection.terminal is not None:
                raise ProtocolError(f"Cannot push closed port ({outlet.name})")
            raise ProtocolError(f"Cannot push port ({outlet.name}) twice, or before it being pulled")
        outlet.pulled = False
        outlet.buffer.append(element)

    def mark(self, outlet: Outlet, mark: Mark) -> None:
        """Put a mark behind everything pushed so far."""
        self._running().flush()
        outlet.connection.mark(mark)

    def complete(self, outlet: Outlet) -> None:
        """Complete a port, behind what is still being emitted."""
        logic = self._running()
        if outlet.emitting:
            outlet.finishing = True
            return
        logic.flush()
        outlet.pulled = False
        outlet.connection.complete()

    def fail(self, outlet: Outlet, error: BaseException) -> None:
        """Fail a port; what is still being emitted is dropped."""
        logic = self._running()
        outlet.emitting.clear()
        logic.flush()
        outlet.pulled = False
        outlet.connection.fail(error)

    def cancel(self, inlet: Inlet, cause: BaseException = NO_MORE_ELEMENTS) -> None:
        """Refuse everything further from a port; an element not grabbed is lost."""
        self._running()
        inlet.element = _NONE
        inlet.pulled = False
        inlet.finished = True
        inlet.connection.cancel(cause)

    def is_available(self, port: Inlet | Outlet) -> bool:
        """Inlet: an element can be grabbed. Outlet: an element may be pushed."""
        return port.element is not _NONE if isinstance(port, Inlet) else port.pulled

    def has_been_pulled(self, inlet: Inlet) -> bool:
        """True from `pull` until the element arrives."""
        return inlet.pulled and not inlet.finished

    def is_closed(self, port: Inlet | Outlet) -> bool:
        """True when nothing can pass the port any more."""
        return port.finished if isinstance(port, Inlet) else port.connection.out_closed

    def set_handler(self, port: Inlet | Outlet, handler: Callable[..., None]) -> None:
        """Have `handler(port)` called instead of `on_push` (inlet) or `on_pull` (outlet)."""
        port.handler = handler

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────

    def complete_stage(self) -> None:
        """Cancel all inlets, complete all outlets (those that are emitting: behind that)."""
        logic = self._running()
        for inlet in self.inlets:
            if not inlet.finished:
                inlet.finished = True
                inlet.pulled = False
                inlet.connection.cancel(STAGE_COMPLETED)
        for outlet in self.outlets:
            self.complete(outlet)
        if not any(outlet.emitting for outlet in self.outlets):
            self.keep_going(False)
            logic.finish()

    def fail_stage(self, error: BaseException) -> None:
        """Cancel all inlets and fail all outlets with `error`."""
        self._running().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        """End as the cancellation strategy says: a failure fails the stage, anything else completes it."""
        error = (self.attributes.cancellation or propagate_failure)(cause)
        for inlet in self.inlets:
            if not inlet.finished:
                self.cancel(inlet, cause)
        if error is None:
            self.complete_stage()
        else:
            self.fail_stage(error)

    def keep_going(self, on: bool) -> None:
        """Keep the stage alive when all its ports have closed, until complete_stage or fail_stage."""
        self._running().set_keep_going(on)

    # ── emit and read ─────────────────────────────────────────────────────────────────────────────────────────────

    def emit(self, outlet: Outlet, element: Any, and_then: Callable[[], None] | None = None) -> None:
        """Push an element as soon as there is demand, then call `and_then`; `on_pull` is not called meanwhile."""
        self._running()
        if outlet.pulled and not outlet.emitting:
            self.push(outlet, element)
            if and_then is not None:
                and_then()
        elif not outlet.connection.out_closed:
            outlet.emitting.append((element, and_then))
            for inlet in self.inlets:
                inlet.connection.hold()

    def emit_multiple(
        self, outlet: Outlet, elements: Iterable[Any], and_then: Callable[[], None] | None = None
    ) -> None:
        """As `emit`, for several elements; `and_then` is called once, after the last."""
        items = list(elements)
        if not items:
            if and_then is not None:
                and_then()
            return
        for element in items[:-1]:
            self.emit(outlet, element)
        self.emit(outlet, items[-1], and_then)

    def read(self, inlet: Inlet, and_then: Callable[[Any], None], on_close: Callable[[], None] | None = None) -> None:
        """Call `and_then(element)` with the next element, pulling if necessary; `on_close()` if the port ends first."""
        self._running()
        if inlet.element is not _NONE:
            and_then(self.grab(inlet))
        elif inlet.finished:
            (on_close or self.complete_stage)()
        else:
            inlet.reader = (and_then, on_close)
            if not inlet.pulled:
                self.pull(inlet)

    def read_n(
        self,
        inlet: Inlet,
        n: int,
        and_then: Callable[[list[Any]], None],
        on_close: Callable[[list[Any]], None] | None = None,
    ) -> None:
        """Call `and_then(elements)` with the next n elements; `on_close(fewer)` if the port ends first."""
        got: list[Any] = []

        def one(element: Any) -> None:
            got.append(element)
            if len(got) == n:
                and_then(got)
            else:
                self.read(inlet, one, closed)

        def closed() -> None:
            if on_close is not None:
                on_close(got)
            else:
                self.complete_stage()

        if n <= 0:
            and_then(got)
        else:
            self.read(inlet, one, closed)

    # ── timers and other threads ──────────────────────────────────────────────────────────────────────────────────

    def schedule_once(self, key: object, delay_ms: float) -> None:
        """Call `on_timer(key)` after `delay_ms`; a timer of that key is replaced."""
        self._running().schedule_once(key, delay_ms)

    def schedule_periodically(self, key: object, initial_ms: float, interval_ms: float) -> None:
        """Call `on_timer(key)` after `initial_ms`, then every `interval_ms`."""
        self._running().schedule_periodically(key, initial_ms, interval_ms)

    def cancel_timer(self, key: object) -> None:
        """Cancel a timer, if it is set."""
        self._running().cancel_timer(key)

    def is_timer_active(self, key: object) -> bool:
        """True while a timer of that key is set."""
        return self._running().is_timer_active(key)

    def async_callback(self, handler: Callable[[T], None]) -> AsyncCallback[T]:
        """Return a thread-safe handle that runs `handler` on this stage's island. May be made at any time."""
        return AsyncCallback(self._element_logic(), self._running_handler(handler))

    def stage_actor(self, receive: Callable[[Any, ActorRef | None], None]) -> StageActor:
        """Return the stage's actor: `.ref` is its address, `receive(message, sender)` is called on the stage's island.

        There is one per stage; called again, this only changes `receive`. `.watch(ref)` makes it receive ActorTerminated when that
        actor has ended. It ends with the stage. May be made in the constructor, so that `create` can materialize the address."""
        logic = self._element_logic()

        def run(message: Any, sender: ActorRef | None) -> None:
            receive(message, sender)
            logic.settle()

        if logic.actor is None:
            from streamactors.engine.stage_actor import StageActor

            logic.actor = StageActor(logic, run)
        else:
            logic.actor.become(run)
        return logic.actor

    def now_ms(self) -> float:
        """Return the system clock's monotonic time."""
        return self._running().interpreter.now_ms()

    # ── plumbing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _running_handler(self, handler: Callable[[T], None]) -> Callable[[T], None]:
        def run(argument: T) -> None:
            handler(argument)
            self._element_logic().settle()

        return run

    def _element_logic(self) -> ElementLogic:
        logic = self.__dict__.get("_logic")
        if logic is None:
            logic = self._logic = ElementLogic(self)
        return logic

    def _running(self) -> ElementLogic:
        logic = self._logic
        if logic is None or not logic.started:
            raise ProtocolError(_NOT_YET)
        return logic


_NOT_YET = "the ports of a stage are not yet initialized in its constructor; use them from pre_start on"


class ElementLogic(Logic):
    """Drives a per-element stage: feeds pulled inlets from chunks, collects what is pushed into chunks."""

    def __init__(self, user: GraphStageLogic) -> None:
        self.user = user
        self.actor: StageActor | None = None
        self.started = False
        self.feeding = False
        user._logic = self

    def bind(self) -> None:
        """Give the user's logic its ports."""
        user = self.user
        user.name = self.name
        user.attributes = self.attributes
        user.inlets = []
        for index, connection in enumerate(self.inlets):
            inlet = Inlet(f"{self.name}.in" if len(self.inlets) == 1 else f"{self.name}.in({index})")
            inlet.connection = connection
            inlet.stage = user
            inlet.handler = user.on_push
            user.inlets.append(inlet)
        user.outlets = []
        for index, out in enumerate(self.outlets):
            outlet = Outlet(f"{self.name}.out" if len(self.outlets) == 1 else f"{self.name}.out({index})")
            outlet.connection = out
            outlet.stage = user
            outlet.handler = user.on_pull
            user.outlets.append(outlet)

    # ── from the interpreter ──────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self.started = True
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.user.pre_start()
        self.settle()

    def on_pull(self, out: Connection) -> None:
        self._offer(self.user.outlets[out.out_index])
        self.settle()

    def on_push(self, in_: Connection) -> None:
        inlet = self.user.inlets[in_.in_index]
        if inlet.pulled:
            self._feed(inlet)
        self.settle()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.user.on_mark(self.user.inlets[in_.in_index], mark)

    def on_complete(self, in_: Connection) -> None:
        inlet = self.user.inlets[in_.in_index]
        inlet.finished = True
        inlet.pulled = False
        if inlet.reader is not None:
            _, on_close = inlet.reader
            inlet.reader = None
            if on_close is not None:
                on_close()
                self.settle()
                return
        self.user.on_upstream_finish(inlet)
        self.settle()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        inlet = self.user.inlets[in_.in_index]
        inlet.finished = True
        inlet.pulled = False
        inlet.reader = None
        self.user.on_upstream_failure(inlet, error)
        self.settle()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        outlet = self.user.outlets[out.out_index]
        outlet.pulled = False
        outlet.buffer.clear()
        outlet.emitting.clear()
        self._release()
        self.user.on_downstream_finish(outlet, cause)
        self.settle()

    def on_timer(self, key: object) -> None:
        self.user.on_timer(key)
        self.settle()

    def on_stop(self) -> None:
        if self.actor is not None:
            self.actor.stop()
        self.user.post_stop()

    def fail_stage(self, error: BaseException) -> None:
        for outlet in self.user.outlets if self.started else ():
            outlet.emitting.clear()
            self.flush()
            outlet.pulled = False
        if self.started:
            for inlet in self.user.inlets:
                inlet.finished = True
                inlet.pulled = False
        super().fail_stage(error)

    def finish(self) -> None:
        """All ports have been closed by complete_stage."""
        self._finish()

    def set_keep_going(self, on: bool) -> None:
        """See GraphStageLogic.keep_going."""
        self.keep_going = on
        if not on and self._open_ports <= 0:
            self.interpreter.ended(self)

    # ── the work ──────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, inlet: Inlet) -> None:
        """State the demand of a pulled inlet."""
        connection = inlet.connection
        n = self.user.prefetch
        if n is None:
            n = 1
            for out in self.outlets:
                if out.asked > n:
                    n = out.asked
            if len(self.inlets) > 1:
                n = -(-n // len(self.inlets))
            window = self._pace.window
            if n > window:
                n = window
        due = connection.due
        connection.want(n if due * 2 <= n else due)

    def _feed(self, inlet: Inlet) -> None:
        """Push elements of the chunk at hand as long as the stage pulls."""
        connection = inlet.connection
        pace = self._pace
        chunk = connection.grab(pace.limit)
        outlets = self.user.outlets
        out = outlets[0] if len(outlets) == 1 else None
        stop = pace.begin()
        self.feeding = True
        taken = 0
        element: Any = None
        try:
            for element in chunk:
                if not inlet.pulled:
                    break
                taken += 1
                inlet.element = element
                inlet.pulled = False
                if inlet.reader is None:
                    inlet.handler(inlet)
                else:
                    and_then, _ = inlet.reader
                    inlet.reader = None
                    inlet.element = _NONE
                    and_then(element)
                if out is not None:
                    if not out.pulled and out.connection.asked > len(out.buffer):
                        if out.emitting:
                            self._offer(out)
                        elif out.connection.terminal is None:
                            out.pulled = True
                            out.handler(out)
                else:
                    for other in outlets:
                        self._offer(other)
                if stop:
                    break
        except BaseException as error:
            blame(error, self.name, element)
            raise
        finally:
            self.feeding = False
            pace.end(taken)
            if taken < len(chunk) and not inlet.finished:
                connection.unread(chunk[taken:])

    def _offer(self, outlet: Outlet) -> None:
        """Let an outlet with demand emit what waits, or have the stage's handler called."""
        connection = outlet.connection
        while connection.asked > len(outlet.buffer) and connection.terminal is None and connection.cause is None:
            if outlet.emitting:
                outlet.pulled = True
                element, and_then = outlet.emitting.popleft()
                self.user.push(outlet, element)
                if not outlet.emitting:
                    self._release()
                if and_then is not None:
                    and_then()
                if outlet.finishing and not outlet.emitting:
                    self.flush()
                    connection.complete()
                    if all(other.out_closed for other in self.outlets) and all(i.finished for i in self.user.inlets):
                        self.keep_going = False
                        self._finish()
            else:
                if not outlet.pulled:
                    outlet.pulled = True
                    outlet.handler(outlet)
                    if outlet.pulled:
                        return
                else:
                    return

    def _release(self) -> None:
        if not any(outlet.emitting for outlet in self.user.outlets):
            for inlet in self.inlets:
                inlet.release()

    def flush(self) -> None:
        """Send what was pushed."""
        for outlet in self.user.outlets:
            if outlet.buffer:
                buffer = outlet.buffer
                outlet.buffer = []
                outlet.connection.push(buffer)

    def settle(self) -> None:
        """After the handlers: send what was pushed, offer demand that is left, state the wants."""
        if self.feeding:
            return
        for outlet in self.user.outlets:
            if not outlet.pulled:
                self._offer(outlet)
        self.flush()
        for inlet in self.user.inlets:
            if inlet.pulled:
                self.ask(inlet)

    def snapshot_state(self) -> str:
        held = sum(len(outlet.emitting) for outlet in self.user.outlets)
        return f"emitting {held}" if held else ""


def element_logic(user: GraphStageLogic) -> Logic:
    """Return the engine's logic for a per-element one."""
    return user._element_logic()
