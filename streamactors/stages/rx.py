"""RxPY pipelines as stages. The only file that knows reactivex.

Rx has no demand: what is fed runs through the operators at once. So demand is counted in output elements: a stage feeds as many
elements as, by what it has seen so far, give what downstream asked for, one at first; what comes out beyond that waits in a bounded
queue, and nothing is fed while it is not empty. Time operators run on the engine's timers through `RxScheduler`; results that come
from a foreign thread (a scheduler of the user's own) are brought over to the stage's island first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import reactivex
from reactivex import abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from streamactors.engine.attributes import Attributes
from streamactors.engine.causes import NO_MORE_ELEMENTS
from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic, SourceLogic
from streamactors.engine.marks import Mark
from streamactors.engine.pace import Pace
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import NOT_USED, SINK, SOURCE, GraphStage, Stage
from streamactors.engine.user_code import blame
from streamactors.errors import BufferOverflow, BuildError
from streamactors.stages.checks import positive
from streamactors.stages.rx_handling import handling_of

T = TypeVar("T")

OVERFLOW = ("fail", "drop_head", "drop_tail", "drop_new")
MAX_BUFFER = 100_000


def _overflow(operator: str, overflow: str) -> str:
    if overflow not in OVERFLOW:
        raise BuildError(f"{operator}: overflow must be one of {', '.join(OVERFLOW)}, got {overflow!r}")
    return overflow


class RxScheduler(PeriodicScheduler):
    """Runs what is due at once in place, and what is due later on the engine's timers, on the stage's island."""

    def __init__(self, logic: Logic, settle: Callable[[], None]) -> None:
        super().__init__()
        self._logic = logic
        self._settle = settle
        self._at_once = CurrentThreadScheduler.singleton()
        self._began_ms = logic.interpreter.now_ms()
        self._began = datetime.now(UTC).replace(tzinfo=None)

    @property
    def now(self) -> datetime:
        return self._began + timedelta(milliseconds=self._logic.interpreter.now_ms() - self._began_ms)

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        return self._at_once.schedule(action, state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        delay_ms = self.to_seconds(duetime) * 1000.0
        if delay_ms <= 0:
            return self.schedule(action, state)
        disposable = SingleAssignmentDisposable()

        def run(_: None) -> None:
            if not disposable.is_disposed:
                disposable.disposable = self.invoke_action(action, state)
                self._settle()

        timer = self._logic.interpreter.call_later(delay_ms, self._logic, run, None)

        def dispose() -> None:
            timer.cancel()
            disposable.dispose()

        return Disposable(dispose)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.schedule_relative(self.to_datetime(duetime) - self.now, action, state)


class _Feed(reactivex.Observable[Any]):
    """The source a pipeline is put behind: keeps the callbacks of its subscribers and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribers: list[tuple[Any, Any, Any]] = []

    def subscribe(  # without the wrapper object per subscriber
        self,
        on_next: Any = None,
        on_error: Any = None,
        on_completed: Any = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        if hasattr(on_next, "on_next"):
            observer = on_next
            on_next, on_error, on_completed = observer.on_next, observer.on_error, observer.on_completed
        subscriber = (on_next or _nothing, on_error or _nothing, on_completed or _nothing)
        self.subscribers.append(subscriber)

        def dispose() -> None:
            if subscriber in self.subscribers:
                self.subscribers.remove(subscriber)

        return Disposable(dispose)

    def each(self) -> Callable[[Any], None]:
        """Return the function that hands on one element."""
        if len(self.subscribers) == 1:
            on_next: Callable[[Any], None] = self.subscribers[0][0]
            return on_next

        def all_of_them(element: Any) -> None:
            for on_next, _, _ in list(self.subscribers):
                on_next(element)

        return all_of_them


def _nothing(*_: Any) -> None:
    pass


class Rx(Stage[Any, Any]):
    """Run elements through RxPY operators.

    Emits when: the operators emit, or results wait that they emitted before.
    Backpressures when: downstream does, or results wait.   Completes when: the operators complete and no results wait.
    Cancels when: downstream cancels, or the operators complete early (take).
    Fails when: the operators fail, after what they emitted before; or more than `max_buffer` results wait (overflow="fail").
    """

    name = "rx"

    def __init__(
        self,
        *operators: Callable[[Any], Any],
        holds: bool | None = None,
        max_buffer: int = MAX_BUFFER,
        overflow: str = "fail",
    ) -> None:
        for operator in operators:
            if not callable(operator):
                raise BuildError(f"rx expects RxPY operators, got {type(operator).__name__} {operator!r}")
        self._operators = operators
        self._max_buffer = positive("rx", "max_buffer", max_buffer)
        self._overflow = _overflow("rx", overflow)
        self.handling = handling_of(operators, holds)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _RxLogic(self._operators, self._max_buffer, self._overflow), NOT_USED


class _RxLogic(FlowLogic):
    passes_marks = True

    def __init__(self, operators: tuple[Callable[[Any], Any], ...], max_buffer: int, overflow: str) -> None:
        self._operators = operators
        self._max_buffer = max_buffer
        self._overflow = overflow
        self._results: list[Any] = []  # emitted since the last flush
        self._waiting: deque[Any] = deque()  # chunks and marks for which there was no demand
        self._held = 0
        self._inside = False
        self._element: Any = None
        self._over = False  # the operators have completed
        self._error: BaseException | None = None
        self._upstream_done = False
        self._fed = 0
        self._made = 0
        self._subscription: abc.DisposableBase | None = None

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._foreign = self.async_callback(self._from_elsewhere)
        self._feed = _Feed()
        observable: Any = self._feed
        self._inside = True
        try:
            for operator in self._operators:
                observable = operator(observable)
            self._subscription = observable.subscribe(
                self._emit, self._on_error, self._on_completed, scheduler=RxScheduler(self, self._settle)
            )
        finally:
            self._inside = False
        self._settle()

    # ── from the operators ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, value: Any) -> None:
        self._results.append(value)
        if not self._inside:
            self._foreign.invoke(None)

    def _from_elsewhere(self, _: None) -> None:
        self._settle()

    def _on_error(self, error: BaseException) -> None:
        self._error = error
        self._ended()

    def _on_completed(self) -> None:
        self._over = True
        self._ended()

    def _ended(self) -> None:
        if self._inside:
            self.interpreter.stop_slice.append(0)  # ends the slice that is being fed
        else:
            self._foreign.invoke(None)

    # ── from the engine ───────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._settle()

    def on_push(self, in_: Connection) -> None:
        asked = self.out.asked
        pace = self._pace
        chunk = in_.grab(min(self._portion(asked), pace.limit))
        results = self._results
        each = self._feed.each()
        stop = pace.begin()
        self._inside = True
        taken = 0
        element: Any = None
        try:
            for element in chunk:
                taken += 1
                each(element)
                if stop or len(results) >= asked:
                    break
        except BaseException as error:  # noqa: BLE001  # an operator that does not catch what its function raises
            if self._error is None:
                self._error = error
        finally:
            self._inside = False
            if self._error is not None:
                blame(self._error, self.name, element)
            pace.end(taken)
            if taken < len(chunk):
                in_.unread(chunk[taken:])
            self._fed += taken
        self._settle()

    def _portion(self, asked: int) -> int:
        """Return how many elements to feed for `asked` results."""
        if not self._fed:
            return 1
        if self._made <= self._fed:
            return asked
        return max(1, asked * self._fed // self._made)

    def _settle(self) -> None:
        """Hand on results, then end or ask for more."""
        results = self._results
        if results:
            n = len(results)
            chunk = results[:n]
            del results[:n]
            self._made += n
            self._hand_on(chunk)
        out = self.out
        waiting = self._waiting
        while waiting and (type(waiting[0]) is not list or out.asked):
            self._release_one()
        if waiting:
            if self._over or self._error is not None:
                self.in_.cancel(self._error or NO_MORE_ELEMENTS)
            return
        if self._error is not None:
            self.fail_stage(self._error)
        elif self._over:
            self.complete_stage()
        elif out.asked and not self._upstream_done:
            in_ = self.in_
            in_.want(max(min(self._portion(out.asked), self._pace.window), in_.due))

    def _hand_on(self, chunk: list[Any]) -> None:
        out = self.out
        if not self._waiting and out.asked and not out.out_closed:
            asked = out.asked
            if len(chunk) <= asked:
                out.push(chunk)
                return
            out.push(chunk[:asked])
            chunk = chunk[asked:]
        self._waiting.append(chunk)
        self._held += len(chunk)
        if self._held > self._max_buffer:
            self._shed()

    def _release_one(self) -> None:
        head = self._waiting.popleft()
        out = self.out
        if type(head) is not list:
            out.mark(head)
            return
        if len(head) > out.asked:
            self._waiting.appendleft(head[out.asked :])
            head = head[: out.asked]
        self._held -= len(head)
        out.push(head)

    def _shed(self) -> None:
        """More results wait than allowed."""
        if self._overflow == "fail":
            raise BufferOverflow(
                f"rx: {self._held} results wait for demand, more than max_buffer={self._max_buffer}; "
                "raise max_buffer, drop with overflow=..., or expand less per element"
            )
        chunks = [chunk for chunk in self._waiting if type(chunk) is list]
        marks = [mark for mark in self._waiting if type(mark) is not list]
        flat = [element for chunk in chunks for element in chunk]
        if self._overflow == "drop_head":
            flat = flat[-self._max_buffer :]
        elif self._overflow == "drop_new":
            flat = flat[: self._max_buffer]
        else:
            flat = [*flat[: self._max_buffer - 1], flat[-1]]
        self._held = len(flat)
        self._waiting = deque([flat, *marks])

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._waiting:
            self._waiting.append(mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self._upstream_done = True
        self._finish_feed(2)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._upstream_done = True
        self._finish_feed(1, error)

    def _finish_feed(self, which: int, *arguments: Any) -> None:
        self._inside = True
        try:
            for subscriber in list(self._feed.subscribers):
                subscriber[which](*arguments)
        except BaseException as error:  # noqa: BLE001  # an operator's own function
            self._error = self._error or error
        finally:
            self._inside = False
            self.interpreter.stop_slice.clear()
        self._settle()

    def on_stop(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()

    def snapshot_state(self) -> str:
        return f"{self._held} results wait" if self._held else ""


class FromObservable(GraphStage):
    """Emit what an observable emits. It has no demand, so a bounded buffer lies between.

    Emits when: the observable has emitted and there is demand.   Completes when: the observable does and the buffer is empty.
    When the buffer is full: "fail" fails the stream, "drop_head" drops the oldest, "drop_tail" the newest one buffered,
    "drop_new" the one that comes. The subscription is disposed when downstream cancels.
    """

    shape = SOURCE
    name = "from_observable"

    def __init__(self, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> None:
        if not hasattr(observable, "subscribe"):
            raise BuildError(f"from_observable expects an observable, got {type(observable).__name__}")
        self._observable = observable
        self._overflow = _overflow("from_observable", overflow)
        self._max_buffer = positive("from_observable", "max_buffer", max_buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _FromObservableLogic(self._observable, self._overflow, self._max_buffer), NOT_USED


class _FromObservableLogic(SourceLogic):
    def __init__(self, observable: Any, overflow: str, max_buffer: int) -> None:
        self._observable = observable
        self._overflow = overflow
        self._max_buffer = max_buffer
        self._arrived: deque[Any] = deque()
        self._told = False
        self._end: list[BaseException | None] = []
        self._subscription: abc.DisposableBase | None = None

    def on_start(self) -> None:
        self._wake = self.async_callback(self._on_wake)
        self._subscription = self._observable.subscribe(self._next, self._failed, self._completed)

    # ── on whatever thread the observable uses ────────────────────────────────────────────────────────────────────

    def _next(self, value: Any) -> None:
        arrived = self._arrived
        if len(arrived) >= self._max_buffer and not self._make_room():
            return
        arrived.append(value)
        self._tell()

    def _make_room(self) -> bool:
        try:
            if self._overflow == "drop_head":
                self._arrived.popleft()
            elif self._overflow == "drop_tail":
                self._arrived.pop()
            elif self._overflow == "drop_new":
                return False
            else:
                self._failed(
                    BufferOverflow(
                        f"from_observable: {self._max_buffer} elements wait for demand and another one came; "
                        "raise max_buffer or choose another overflow"
                    )
                )
                return False
        except IndexError:
            pass  # the stage has just emptied it
        return True

    def _failed(self, error: BaseException) -> None:
        self._end.append(error)
        self._tell()

    def _completed(self) -> None:
        self._end.append(None)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._wake.invoke(None)

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    def _on_wake(self, _: None) -> None:
        self._told = False
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        ended = bool(self._end)  # looked at first: what was emitted before the end is in the buffer by now
        arrived = self._arrived
        n = min(out.asked, len(arrived))
        if n:
            out.push([arrived.popleft() for _ in range(n)])
        if ended:
            error = self._end[0]
            if error is not None:
                self.fail_stage(error)
            elif not arrived:
                self.complete_stage()

    def on_stop(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()


class ToObserver(GraphStage):
    """Call an observer for each element, on the stream's island; demand follows the observer's return. Materializes a future."""

    shape = SINK
    name = "as_observable"

    def __init__(self, observer: Any) -> None:
        self._observer = observer

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ToObserverLogic(self._observer)
        return logic, logic


class _ToObserverLogic(SinkLogic):
    def __init__(self, observer: Any) -> None:
        super().__init__()
        self._observer = observer

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._stopper = self.async_callback(self._dispose)
        self.in_.want(self._pace.window)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        chunk = in_.grab(pace.limit)
        stop = pace.begin()
        taken = 0
        element: Any = None
        on_next = self._observer.on_next
        try:
            for element in chunk:
                taken += 1
                on_next(element)
                if stop:
                    break
        except BaseException as error:
            blame(error, self.name, element)
            raise
        finally:
            pace.end(taken)
        in_.unread(chunk[taken:])
        in_.want(pace.window)

    def on_complete(self, in_: Connection) -> None:
        self.succeed(None)
        self._observer.on_completed()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        super().on_fail(in_, error)
        self._observer.on_error(error)

    def dispose(self) -> None:
        """Cancel the stream; any thread."""
        self.async_callback(self._dispose).invoke(None)

    def _dispose(self, _: None) -> None:
        self.in_.cancel(NO_MORE_ELEMENTS)
        if not self.future.done():
            self.future.set_result(None)


def as_observable(run: Callable[[GraphStage], _ToObserverLogic]) -> reactivex.Observable[Any]:
    """Return a cold observable: each subscription calls `run(sink)`, which starts the stream into that sink."""

    def subscribe(observer: Any, scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(run(ToObserver(observer)).dispose)

    return reactivex.create(subscribe)
