"""An Rx pipeline as a stage.

Rx has no demand: what is fed runs through the operators at once. So demand is counted in output elements: a stage feeds as many
elements as, by what it has seen so far, give what downstream asked for, one at first; what comes out beyond that waits in a bounded
queue, and nothing is fed while it is not empty. Time operators run on the engine's timers; results that come from a foreign thread (a
scheduler of the user's own) are brought over to the stage's island first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from reactivex import abc
from reactivex.scheduler import CurrentThreadScheduler

from streamactors.engine.attributes import Attributes
from streamactors.engine.causes import NO_MORE_ELEMENTS
from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import Mark
from streamactors.engine.pace import Pace
from streamactors.engine.stage import NOT_USED, Stage
from streamactors.engine.user_code import blame
from streamactors.errors import BufferOverflow, BuildError
from streamactors.stages.checks import positive
from streamactors.stages.rx.feed import Feed
from streamactors.stages.rx.handling import handling_of, subscribes
from streamactors.stages.rx.overflow import MAX_BUFFER, Flooded, checked_overflow
from streamactors.stages.rx.scheduler import RxScheduler


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
        self._overflow = checked_overflow("rx", overflow)
        self.handling = handling_of(operators, holds)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _RxLogic(self._operators, self._max_buffer, self._overflow), NOT_USED


class _RxLogic(FlowLogic):
    passes_marks = True

    def __init__(self, operators: tuple[Callable[[Any], Any], ...], max_buffer: int, overflow: str) -> None:
        self._operators = operators
        self._subscribes = subscribes(operators)
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
        self._feed = Feed(self._subscribed_to)
        observable: Any = self._feed
        self._inside = True
        try:
            for operator in self._operators:
                observable = operator(observable)
            self._subscription = observable.subscribe(
                self._emitter(), self._on_error, self._on_completed, scheduler=RxScheduler(self, self._settle)
            )
        except Flooded:
            pass  # `_settle` says so
        finally:
            self._inside = False
        self._settle()

    # ── from the operators ────────────────────────────────────────────────────────────────────────────────────────

    def _emitter(self) -> Callable[[Any], None]:
        """Return what takes a result: called for each one, so it asks no object for what does not change."""
        results, most = self._results, self._max_buffer
        append = results.append

        def emit(value: Any) -> None:
            append(value)
            if not self._inside:
                self._foreign.invoke(None)
            elif len(results) > most and self._must_fail(len(results)):
                raise Flooded  # there may be no end to it

        return emit

    def _must_fail(self, results: int) -> bool:
        return self._overflow == "fail" and results > self._max_buffer + self.out.asked

    def _from_elsewhere(self, _: None) -> None:
        self._settle()

    def _on_error(self, error: BaseException) -> None:
        self._error = error
        self._ended()

    def _on_completed(self) -> None:
        self._over = True
        self._ended()

    def _subscribed_to(self) -> None:
        if self._inside and self.interpreter.in_slice:
            self.interpreter.stop_slice.append(0)  # by retry, for one: the rest of the slice is for the new subscriber

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
        if self._subscribes:
            each = _in_turn(each)
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
        except Flooded:
            pass
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
        self._finish_feed()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._upstream_done = True
        self._finish_feed(error)

    def _finish_feed(self, error: BaseException | None = None) -> None:
        self._inside = True
        try:
            _in_turn(self._feed.end)(error)
        except Flooded:
            pass
        except BaseException as raised:  # noqa: BLE001  # an operator's own function
            self._error = self._error or raised
        finally:
            self._inside = False
            self.interpreter.stop_slice.clear()
        self._settle()

    def on_stop(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()

    def snapshot_state(self) -> str:
        return f"{self._held} results wait" if self._held else ""


def _in_turn(fn: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return `fn` as a call during which observables that are subscribed to wait, and begin behind it.

    So RxPY's own sources call; one that emits at once and for ever could not be disposed of if it began within `subscribe`."""
    schedule = CurrentThreadScheduler.singleton().schedule

    def call(argument: Any) -> None:
        schedule(lambda *_: fn(argument))

    return call
