"""An Rx pipeline as a stage.

Rx has no demand: an element runs through the operators at once. So demand is counted in results. The stage estimates from the results so
far how many elements give the results that downstream asks for, and feeds that many; the first time it feeds one. Results beyond the
demand wait in a bounded queue, and no element is fed while it is not empty. Time operators run on the engine's timers; results from
another thread (a scheduler of the user's own) are passed to the stage's island first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from reactivex import abc
from reactivex.scheduler import CurrentThreadScheduler

from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import Mark
from streamactors.engine.stage import Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import blame
from streamactors.errors import BufferOverflow, BuildError
from streamactors.gauges import Gauge
from streamactors.stages.checks import positive
from streamactors.stages.rx.feed import RxFeed
from streamactors.stages.rx.gates import Gate
from streamactors.stages.rx.handling import handling_of, subscribes
from streamactors.stages.rx.holding import Held
from streamactors.stages.rx.overflow import MAX_BUFFER, Flooded, checked_overflow
from streamactors.stages.rx.scheduler import RxScheduler


class Rx(Stage[Any, Any]):
    """The stage of `Source.rx`."""

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
        self.operators = operators
        self.max_buffer = positive("rx", "max_buffer", max_buffer)
        self.overflow = checked_overflow("rx", overflow)
        self.handling, opaque_because, self.followed = handling_of(operators, holds)
        self.traits = StageTraits(opaque_because=opaque_because)


@logic_of(Rx)
class _RxLogic(FlowLogic):
    passes_marks = True
    stage: Rx

    def __init__(self, stage: Rx) -> None:
        super().__init__(stage)
        self._subscribes = subscribes(stage.operators)
        self._results: list[Any] = []  # emitted since the last flush
        self._waiting: deque[Any] = deque()  # chunks and marks for which there was no demand
        self._held = 0
        self._gauge = Gauge("rx: results that wait for demand", stage.max_buffer)
        self._inside = False
        self._over = False  # the operators have completed
        self._error: BaseException | None = None
        self._upstream_done = False
        self._fed = 0
        self._made = 0
        self._subscription: abc.DisposableBase | None = None
        self._lock = threading.RLock()
        self._gates: list[Gate] = []
        self._ripe: list[tuple[int, Mark]] = []  # (results of `_results` before it, mark)

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._foreign = self.async_callback(self._from_elsewhere)
        self._feed = RxFeed(self._subscribed_to)
        observable: Any = self._feed
        self._inside = True
        try:
            for operator in self._operators():
                observable = operator(observable)
            self._subscription = observable.subscribe(
                self._emitter(), self._on_error, self._on_completed, scheduler=RxScheduler(self, self._settle)
            )
        except Flooded:
            pass  # `_settle` raises BufferOverflow
        finally:
            self._inside = False
        self._settle()

    def _operators(self) -> Iterator[Callable[[Any], Any]]:
        """Yield the operators, with gates around those that hold elements if marks travel in this run."""
        if not self.stage.followed or not self._follows():
            yield from self.stage.operators
            return
        for part in self.stage.followed:
            if not isinstance(part, Held):
                yield part
                continue
            gate = part.gate(self._lock)
            gate.passed = self._mark_out
            if self._gates:
                self._gates[-1].passed = gate.on_mark
            self._gates.append(gate)
            if part.before is not None:
                yield part.before
            yield gate.around(part.operator)

    def _follows(self) -> bool:
        return self.interpreter.island.run.marks_active

    def _mark_out(self, mark: Mark) -> None:
        """A mark has passed the last gate; any thread, with the lock."""
        self._ripe.append((len(self._results), mark))
        if not self._inside:
            self._foreign.invoke(None)

    # ── from the operators ────────────────────────────────────────────────────────────────────────────────────────

    def _emitter(self) -> Callable[[Any], None]:
        """Return the function that takes a result. It is called for each result, so it looks up no attribute that stays the same."""
        results, most = self._results, self.stage.max_buffer
        append = results.append

        def emit(value: Any) -> None:
            append(value)
            if not self._inside:
                self._foreign.invoke(None)
            elif len(results) > most and self._must_fail(len(results)):
                raise Flooded  # the observable may emit without end

        return emit

    def _must_fail(self, results: int) -> bool:
        return self.stage.overflow == "fail" and results > self.stage.max_buffer + self.out.asked

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
            self.interpreter.stop_slice.append(0)  # for example by retry: the new subscriber gets the rest of the slice

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
        feed = pace.take(in_, self._portion(asked))
        n = feed.__length_hint__()
        results = self._results
        each = self._feed.each()
        if self._subscribes:
            each = _in_turn(each)
        stop = self.interpreter.stop_slice
        self._inside = True
        try:
            for element in feed:
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
                blame(self._error, self.name, pace.element)
            self._fed += n - feed.__length_hint__()
            pace.give_back(in_)
        self._settle()

    def _portion(self, asked: int) -> int:
        """Return how many elements to feed for `asked` results."""
        if not self._fed:
            return 1
        if self._made <= self._fed:
            return asked
        return max(1, asked * self._fed // self._made)

    def _settle(self) -> None:
        """Pass results on, then end or ask for more."""
        # read before the results: all that another thread emitted before the end are among these
        over, error = self._over, self._error
        if self._gates:
            self._flush_with_marks()
        else:
            n = len(self._results)
            if n:
                chunk = self._results[:n]
                del self._results[:n]
                self._made += n
                self._hand_on(chunk)
        out = self.out
        waiting = self._waiting
        while waiting and (type(waiting[0]) is not list or out.asked):
            self._release_one()
        if waiting:
            if over or error is not None:
                self.in_.cancel(error or NO_MORE_ELEMENTS)
            return
        if error is not None:
            self.fail_stage(error)
        elif over:
            self.complete_stage()
        elif out.asked and not self._upstream_done:
            in_ = self.in_
            in_.want(max(min(self._portion(out.asked), self._pace.window), in_.due))

    def _flush_with_marks(self) -> None:
        """Hand on the results, and the marks at their places between them."""
        with self._lock:
            if self._over and self._upstream_done and self._error is None:
                for gate in self._gates:
                    gate.release()  # the operators have completed after the end of the stream: they hold nothing
            ripe, self._ripe = self._ripe, []
            results = self._results[:]
            del self._results[: len(results)]
        self._made += len(results)
        gone = 0
        for at, mark in ripe:
            if at > gone:
                self._hand_on(results[gone:at])
                gone = at
            self._pass(mark)
        if gone < len(results):
            self._hand_on(results[gone:])

    def _pass(self, mark: Mark) -> None:
        if self._waiting:
            self._waiting.append(mark)
        else:
            self.out.mark(mark)

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
        if self._held > self.stage.max_buffer:
            self._shed()
        self._gauge.reached(self._held)

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
        """More results wait than `max_buffer`: fail or drop some."""
        if self.stage.overflow == "fail":
            raise BufferOverflow(
                f"rx: {self._held} results wait for demand, more than max_buffer={self.stage.max_buffer}; "
                "raise max_buffer, drop with overflow=..., or expand less per element"
            )
        chunks = [chunk for chunk in self._waiting if type(chunk) is list]
        marks = [mark for mark in self._waiting if type(mark) is not list]
        flat = [element for chunk in chunks for element in chunk]
        if self.stage.overflow == "drop_head":
            flat = flat[-self.stage.max_buffer :]
        elif self.stage.overflow == "drop_new":
            flat = flat[: self.stage.max_buffer]
        else:
            flat = [*flat[: self.stage.max_buffer - 1], flat[-1]]
        self._held = len(flat)
        self._waiting = deque([flat, *marks])

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if not self._gates:
            self._pass(mark)
            return
        with self._lock:
            self._gates[0].on_mark(mark.copy() if isinstance(mark, dict) else mark)
        self._flush_with_marks()

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
    """Return `fn` as a call during which newly subscribed observables wait; they begin after the call.

    RxPY's own sources call so. An observable that emits at once and without end could not be disposed if it began inside `subscribe`."""
    schedule = CurrentThreadScheduler.singleton().schedule

    def call(argument: Any) -> None:
        schedule(lambda *_: fn(argument))

    return call
