"""GraphStageLogic: the per-element way to write a stage, with the port laws of Akka Streams.

    class Duplicate(Stage[T, T]):
        def logic(self):
            return DuplicateLogic()

    class DuplicateLogic(GraphStageLogic):
        def on_push(self, inlet):
            element = self.grab(inlet)
            self.emit_multiple(self.out, [element, element])
        def on_pull(self, outlet):
            self.pull(self.in_)

A port is pulled once per element, pushed once per pull. Underneath, elements still arrive and leave in chunks (element_logic.py): a
pulled inlet is fed from a chunk, and pushed elements leave as one chunk when the handlers have run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.element.element_logic import ElementLogic
from streamactors.engine.element.ports import CLOSED, EMPTY, PULLED, Inlet, NotYet, Outlet
from streamactors.engine.island.causes import NO_MORE_ELEMENTS, STAGE_COMPLETED, propagate_failure
from streamactors.engine.logic import AsyncCallback, Logic, T
from streamactors.engine.marks.marks import Mark
from streamactors.errors import ProtocolError

if TYPE_CHECKING:
    from streamactors.actors.address import ActorRef
    from streamactors.engine.island.stage_actor import StageActor


def _not_yet() -> ProtocolError:
    return ProtocolError("the ports of a stage are not yet initialized in its constructor; use them from pre_start on")


class GraphStageLogic:
    """State and handlers of a per-element stage. Override the `on_…` methods, or give a port its own with `set_handler`.

    `inlets` and `outlets` are the ports; one-port shortcuts are `self.in_` and `self.out`."""

    prefetch: int | None = None
    """Elements asked of upstream while an inlet is pulled; None follows downstream's demand, 1 is Akka's lock-step."""
    inlets: list[Inlet] = NotYet(_not_yet)  # type: ignore[assignment]
    outlets: list[Outlet] = NotYet(_not_yet)  # type: ignore[assignment]
    attributes: Attributes = NONE
    name = "stage"
    _logic: ElementLogic | None = None

    # ── handlers, to be overridden ────────────────────────────────────────────────────────────────────────────────

    def pre_start(self) -> None:
        """Called once before anything else; ports, timers and callbacks may be used from here on."""

    def post_stop(self) -> None:
        """Called exactly once when the stage has ended, for whatever reason."""

    def on_push(self, inlet: Inlet) -> None:
        """An element is at the inlet: `grab` it."""
        raise ProtocolError(f"stage {self.name} has an inlet {inlet.name} and defines no on_push")

    def on_pull(self, outlet: Outlet) -> None:
        """Downstream asks for an element: `push` one now or later."""
        if len(self.inlets) == 1 and self.inlets[0].state not in (PULLED, CLOSED):
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
        """The first inlet."""
        return self.inlets[0]

    @property
    def out(self) -> Outlet:
        """The first outlet."""
        return self.outlets[0]

    def pull(self, inlet: Inlet) -> None:
        """Ask for one element. Raises ProtocolError when the port is pulled already or closed."""
        if inlet.state:
            self._pull(inlet)
        else:  # FED
            inlet.element = EMPTY
            inlet.state = PULLED

    def _pull(self, inlet: Inlet) -> None:
        logic = self._running()
        if inlet.state == PULLED:
            raise ProtocolError(f"Cannot pull port ({inlet.name}) twice")
        if inlet.state == CLOSED:
            raise ProtocolError(f"Cannot pull closed port ({inlet.name})")
        inlet.element = EMPTY
        inlet.state = PULLED
        logic.ask(inlet)

    def try_pull(self, inlet: Inlet) -> None:
        """As `pull`, but nothing happens when the port is closed."""
        if inlet.state != CLOSED:
            self.pull(inlet)

    def grab(self, inlet: Inlet) -> Any:
        """Take the element that was pushed. Raises ProtocolError when there is none."""
        element = inlet.element
        if element is EMPTY:
            raise ProtocolError(f"Cannot get element from already empty input port ({inlet.name})")
        inlet.element = EMPTY
        return element

    def push(self, outlet: Outlet, element: Any) -> None:
        """Send one element. Raises ProtocolError when downstream has not pulled, or the port is closed."""
        if not outlet.pulled:
            self._cannot_push(outlet)
            return
        outlet.pulled = False
        outlet.buffer.append(element)

    def _cannot_push(self, outlet: Outlet) -> None:
        if outlet.connection.cause is not None:
            return  # downstream has cancelled: the element is dropped
        if outlet.connection.terminal is not None:
            raise ProtocolError(f"Cannot push closed port ({outlet.name})")
        raise ProtocolError(f"Cannot push port ({outlet.name}) twice, or before it being pulled")

    def mark(self, outlet: Outlet, mark: Mark) -> None:
        """Put a mark after everything pushed so far."""
        self._running().flush()
        outlet.connection.mark(mark)

    def complete(self, outlet: Outlet) -> None:
        """Complete a port, after the elements that are still being emitted."""
        logic = self._running()
        if outlet.emitting:
            outlet.finishing = True
            return
        logic.flush()
        outlet.pulled = False
        outlet.connection.complete()
        logic.end_slice()

    def fail(self, outlet: Outlet, error: BaseException) -> None:
        """Fail a port; elements still being emitted are dropped."""
        logic = self._running()
        logic.stop_emitting(outlet)
        logic.flush()
        outlet.pulled = False
        outlet.connection.fail(error)
        logic.end_slice()

    def cancel(self, inlet: Inlet, cause: BaseException = NO_MORE_ELEMENTS) -> None:
        """Cancel a port; an element that was not grabbed is dropped."""
        self._running()
        inlet.element = EMPTY
        inlet.state = CLOSED
        inlet.connection.cancel(cause)

    def is_available(self, port: Inlet | Outlet) -> bool:
        """Inlet: an element can be grabbed. Outlet: an element may be pushed."""
        return port.element is not EMPTY if isinstance(port, Inlet) else port.pulled

    def has_been_pulled(self, inlet: Inlet) -> bool:
        """True from `pull` until the element arrives."""
        return inlet.state == PULLED

    def is_closed(self, port: Inlet | Outlet) -> bool:
        """True when the port is closed: nothing passes it."""
        return port.state == CLOSED if isinstance(port, Inlet) else port.connection.out_closed

    def set_handler(self, port: Inlet | Outlet, handler: Callable[..., None]) -> None:
        """Call `handler(port)` instead of `on_push` (inlet) or `on_pull` (outlet)."""
        port.handler = handler
        if isinstance(port, Outlet):
            port.passive = False

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────

    def complete_stage(self) -> None:
        """Cancel all inlets and complete all outlets; an outlet that is emitting completes after its last element."""
        logic = self._running()
        for inlet in self.inlets:
            if inlet.state != CLOSED:
                inlet.state = CLOSED
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
            if inlet.state != CLOSED:
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
        logic = self._running()
        if outlet.pulled and not outlet.emitting:
            outlet.pulled = False
            outlet.buffer.append(element)
            if and_then is not None:
                and_then()
        elif not outlet.connection.out_closed:
            logic.start_emitting(outlet)
            outlet.emitting.append((element, and_then))

    def emit_multiple(
        self, outlet: Outlet, elements: Iterable[Any], and_then: Callable[[], None] | None = None
    ) -> None:
        """As `emit`, for several elements; `and_then` is called once, after the last."""
        items = list(elements)
        if not items:
            if and_then is not None:
                and_then()
            return
        last = items.pop()
        for element in items:
            self.emit(outlet, element)
        self.emit(outlet, last, and_then)

    def read(self, inlet: Inlet, and_then: Callable[[Any], None], on_close: Callable[[], None] | None = None) -> None:
        """Call `and_then(element)` with the next element, pulling if necessary; `on_close()`, and then `on_upstream_finish`, if the port
        completes first."""
        logic = self._running()
        if inlet.element is not EMPTY:
            and_then(self.grab(inlet))
        elif inlet.state == CLOSED:
            (on_close or self.complete_stage)()
        else:
            logic.start_reading(inlet, (and_then, on_close))
            if inlet.state != PULLED:
                self.pull(inlet)

    def read_n(
        self,
        inlet: Inlet,
        n: int,
        and_then: Callable[[list[Any]], None],
        on_close: Callable[[list[Any]], None] | None = None,
    ) -> None:
        """Call `and_then(elements)` with the next n elements; `on_close(fewer)`, and then `on_upstream_finish`, if the port completes first."""
        got: list[Any] = []
        closed = None if on_close is None else partial(on_close, got)

        def one(element: Any) -> None:
            got.append(element)
            if len(got) == n:
                and_then(got)
            else:
                self.read(inlet, one, closed)

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

        A stage has one actor; a further call only replaces `receive`. After `.watch(ref)` the actor receives ActorTerminated when `ref`
        has ended. The actor ends with the stage. May be made in the constructor, so that `create` can materialize the address."""
        logic = self._element_logic()

        def run(message: Any, sender: ActorRef | None) -> None:
            receive(message, sender)
            logic.settle()

        if logic.actor is None:
            from streamactors.engine.island.stage_actor import StageActor

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
            raise _not_yet()
        return logic

    def pulls_only(self) -> bool:
        """True when `on_pull` only pulls the only inlet; then the loop pulls instead of calling `on_pull` for each element.

        The default `on_pull` does only that. A user's `on_pull` is recognised by its bytecode, which equals that of a function below."""
        own = type(self)
        if len(self.inlets) != 1 or len(self.outlets) != 1 or "on_pull" in self.__dict__:
            return False
        if own.pull is not GraphStageLogic.pull or "pull" in self.__dict__:
            return False
        if own.on_pull is GraphStageLogic.on_pull:
            return True
        if own.in_ is not GraphStageLogic.in_:
            return False
        code = getattr(own.on_pull, "__code__", None)
        return code is not None and (code.co_code, code.co_names, code.co_consts[1:]) in _PULLING


def _ways_to_pull() -> frozenset[Any]:
    def by_index(self: GraphStageLogic, outlet: Outlet) -> None:
        self.pull(self.inlets[0])

    def by_name(self: GraphStageLogic, outlet: Outlet) -> None:
        self.pull(self.in_)

    codes = [way.__code__ for way in (by_index, by_name)]
    return frozenset((code.co_code, code.co_names, code.co_consts[1:]) for code in codes)


_PULLING = _ways_to_pull()


def element_logic(user: GraphStageLogic) -> Logic:
    """Return the engine's logic for a per-element one."""
    return user._element_logic()
