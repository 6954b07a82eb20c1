"""Operators that call a function for several elements at a time: map_async, map_async_unordered, map_async_partitioned, ask.

The function may be a coroutine function (it runs on the system's asyncio loop) or a plain one (it runs on the system's pool, and may
block); a plain one may also return a future or an awaitable. None is a result like any other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import ActorAddress
from streamactors.clock import Duration
from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import BLURS, EXACT, Epochs, Handling, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.calls import Call, Calls
from streamactors.stages.checks import function, plain_function, positive, span_ms
from streamactors.stages.emitting import keep


class MapAsync(Stage[In, Out]):
    """Call a function with up to `parallelism` elements at a time; emit the results in the elements' order.

    Emits when: the oldest call has ended.        Backpressures when: `parallelism` calls run or wait to be emitted.
    Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
    Fails when: a call fails, at once, whatever older calls still do.
    Supervision: resume and restart drop the element.
    Marks: in the queue of calls; exact.
    """

    handling: Handling = EXACT

    def __init__(self, parallelism: int, fn: Callable[[Any], Any]) -> None:
        self._parallelism = positive(self.label, "parallelism", parallelism)
        self._fn = function(self.label, fn)

    def logic(self) -> Logic:
        return _OrderedLogic(self._parallelism, self._fn)


class MapAsyncUnordered(MapAsync[In, Out]):
    """Call a function with up to `parallelism` elements at a time; emit the results as they come.

    Emits when: a call has ended.                 Backpressures when: `parallelism` calls run or wait to be emitted.
    Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
    Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
    Marks: when all that came before them has left; blurs.
    """

    handling = BLURS

    def logic(self) -> Logic:
        return _UnorderedLogic(self._parallelism, self._fn)


class MapAsyncPartitioned(MapAsync[In, Out]):
    """As map_async, but at most `per_partition` calls of one key at a time, begun in the elements' order.

    Elements whose key is busy wait, and count among the `parallelism`. `key(element)` runs in the stream, so it should be quick.
    Emits when: the oldest call has ended.        Backpressures when: `parallelism` elements are called for, wait to be, or to be emitted.
    Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
    Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
    Marks: in the queue of calls; exact.
    """

    def __init__(
        self, parallelism: int, key: Callable[[Any], Any], fn: Callable[[Any], Any], per_partition: int = 1
    ) -> None:
        super().__init__(parallelism, fn)
        self._key = plain_function(self.label, key)
        self._per_partition = positive(self.label, "per_partition", per_partition)

    def logic(self) -> Logic:
        return _PartitionedLogic(self._parallelism, self._key, self._fn, self._per_partition)


class Ask(Stage[In, Out]):
    """Send each element to an actor and emit its answers, in the elements' order, up to `parallelism` at a time.

    Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
    Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
    Fails when: an answer does not come within `timeout` (AskTimeout), or the actor has stopped (ActorError).
    Supervision: resume and restart drop the element.
    Marks: in the queue of questions; exact.
    """

    handling = EXACT

    def __init__(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> None:
        if not isinstance(actor, ActorAddress):
            raise BuildError(f"ask expects the address of an actor, got {type(actor).__name__} {shortened(actor, 60)}")
        self._actor: ActorRef = actor
        self._timeout_ms = span_ms("ask", "timeout", timeout)
        self._parallelism = positive("ask", "parallelism", parallelism)

    def logic(self) -> Logic:
        return _AskLogic(self._parallelism, self._actor, self._timeout_ms)


class _CallingLogic(FlowLogic):
    """Starts calls and counts those inside; what leaves when is for the subclasses."""

    here: ClassVar[bool] = False

    def __init__(self, parallelism: int, fn: Callable[[Any], Any]) -> None:
        self._parallelism = parallelism
        self._fn = fn
        self._inside = 0
        self._completing = False

    def on_start(self) -> None:
        self._calls = Calls(self, self._fn, self._on_ended, here=self.here)

    def on_pull(self, out: Connection) -> None:
        self._move_on()

    def on_push(self, in_: Connection) -> None:
        calls = [Call(element) for element in in_.grab(self._parallelism - self._inside)]
        self._inside += len(calls)
        self.enter(calls)
        self._move_on()

    def _on_ended(self, calls: list[Call]) -> None:
        """Calls have ended; on the island."""
        failure: BaseException | None = None
        for call in calls:
            if call.error is not None and failure is None:
                failure = self.judge(call)
        self.left(calls)
        if failure is None:
            self._move_on()
        else:
            self.emit()  # what was there before it
            self.fail_stage(failure)

    def judge(self, call: Call) -> BaseException | None:
        """A call failed: return the error that stops the stage, None when supervision drops the element."""
        error = call.error
        assert error is not None
        try:
            if directive_for(self, error, call.element, self._fn) is Directive.STOP:
                return error
        except BaseException as worse:  # noqa: BLE001  # the decider's own
            return worse
        call.dropped = True
        return None

    def _move_on(self) -> None:
        self.emit()
        if self._completing and not self._inside:
            self.complete_stage()
        elif self._inside < self._parallelism:
            self.in_.want(self._parallelism - self._inside)

    def enter(self, calls: list[Call]) -> None:
        """Start new calls."""
        raise NotImplementedError  # pragma: no cover

    def left(self, calls: list[Call]) -> None:
        """Calls have ended, well or not."""

    def emit(self) -> None:
        """Push what may leave."""
        raise NotImplementedError  # pragma: no cover

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if not self._inside:
            self.complete_stage()

    def on_stop(self) -> None:
        self._calls.stop()

    def snapshot_state(self) -> str:
        return f"{self._inside} of {self._parallelism} calls"


class _OrderedLogic(_CallingLogic):
    def __init__(self, parallelism: int, fn: Callable[[Any], Any]) -> None:
        super().__init__(parallelism, fn)
        self._queue: deque[Any] = deque()  # calls and marks

    def enter(self, calls: list[Call]) -> None:
        self._queue += calls
        self._calls.start(calls)

    def emit(self) -> None:
        out, queue = self.out, self._queue
        results: list[Any] = []
        while queue:
            head = queue[0]
            if type(head) is not Call:
                if results:
                    out.push(results)
                    results = []
                out.mark(head)
            elif not head.done or (head.error is not None and not head.dropped):
                break
            else:
                if not head.dropped:
                    if len(results) == out.asked:
                        break
                    results.append(head.value)
                self._inside -= 1
            queue.popleft()
        if results:
            out.push(results)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._queue:
            keep(self._queue, mark)
        else:
            self.out.mark(mark)


class _PartitionedLogic(_OrderedLogic):
    def __init__(
        self, parallelism: int, key: Callable[[Any], Any], fn: Callable[[Any], Any], per_partition: int
    ) -> None:
        super().__init__(parallelism, fn)
        self._key = key
        self._per_partition = per_partition
        self._busy: dict[Any, int] = {}  # calls that run, per key
        self._waiting: dict[Any, deque[Call]] = {}

    def enter(self, calls: list[Call]) -> None:
        ready: list[Call] = []
        failure: BaseException | None = None
        for call in calls:
            try:
                call.key = self._key(call.element)
                busy = self._busy.get(call.key, 0)
            except BaseException as error:  # noqa: BLE001  # the user's function, or a key that has no hash
                call.error = error
                failure = self.judge(call)
                if failure is not None:
                    break
                call.done = True
                self._queue.append(call)
                continue
            self._queue.append(call)
            if busy < self._per_partition:
                self._busy[call.key] = busy + 1
                ready.append(call)
            else:
                self._waiting.setdefault(call.key, deque()).append(call)
        if failure is not None:
            raise failure
        if ready:
            self._calls.start(ready)

    def left(self, calls: list[Call]) -> None:
        ready: list[Call] = []
        for call in calls:
            key = call.key
            waiting = self._waiting.get(key)
            if waiting:
                ready.append(waiting.popleft())
                if not waiting:
                    del self._waiting[key]
            elif self._busy[key] == 1:
                del self._busy[key]
            else:
                self._busy[key] -= 1
        if ready:
            self._calls.start(ready)


class _UnorderedLogic(_CallingLogic):
    def __init__(self, parallelism: int, fn: Callable[[Any], Any]) -> None:
        super().__init__(parallelism, fn)
        self._epochs = Epochs()
        self._ready: deque[Call] = deque()

    def enter(self, calls: list[Call]) -> None:
        for call in calls:
            call.token = self._epochs.enter()
        self._calls.start(calls)

    def left(self, calls: list[Call]) -> None:
        self._ready += calls

    def emit(self) -> None:
        out, ready = self.out, self._ready
        results: list[Any] = []
        while ready:
            call = ready[0]
            if call.error is not None and not call.dropped:
                break  # the stage fails
            if not call.dropped:
                if len(results) == out.asked:
                    break
                results.append(call.value)
            ready.popleft()
            self._inside -= 1
            marks = self._epochs.leave(call.token)
            if marks:
                if results:
                    out.push(results)
                    results = []
                for mark in marks:
                    out.mark(mark)
        if results:
            out.push(results)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        for ripe in self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark):
            self.out.mark(ripe)


class _AskLogic(_OrderedLogic):
    here = True

    def __init__(self, parallelism: int, actor: ActorRef, timeout_ms: float) -> None:
        super().__init__(parallelism, self._ask)
        self._actor = actor
        self._timeout_ms = timeout_ms

    def _ask(self, element: Any) -> Any:
        return self.interpreter.island.run.system.ask(self._actor, element, self._timeout_ms)
