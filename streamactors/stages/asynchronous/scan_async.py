"""scan_async: a scan whose function is asynchronous. One call runs at a time, since each needs the result of the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.zero import fresh
from streamactors.stages.asynchronous.calls import Call
from streamactors.stages.asynchronous.map_async import OrderedLogic
from streamactors.stages.checks import function, is_coroutine_function


class ScanAsync(Stage[In, Out]):
    """Emit `zero`, then for each element the value so far combined with it by the asynchronous `fn(value, element)`.

    `fn` may be a coroutine function, or a plain function, which runs on the system's threads and may return a future.
    Each run starts with a copy of `zero`.
    Emits when: a call has ended.                 Backpressures when: downstream does, or a call runs.
    Completes when: upstream completes and the last call has ended.   Cancels when: downstream cancels.
    Fails when: a call fails.
    Supervision: resume drops the element; restart goes back to `zero` and emits it.
    Marks: in the queue of calls.
    """

    handling = EXACT_MEMORY
    parallelism = 1

    def __init__(self, zero: Any, fn: Callable[[Any, Any], Any]) -> None:
        self.zero = zero
        self.fn = function("scan_async", fn)


@logic_of(ScanAsync)
class _ScanAsyncLogic(OrderedLogic):
    def function(self) -> Callable[[Any], Any]:
        self._value = fresh(self.stage.zero)
        fn = self.stage.fn
        if is_coroutine_function(fn):

            async def combine(element: Any) -> Any:
                return await fn(self._value, element)

            return combine
        return lambda element: fn(self._value, element)

    def on_start(self) -> None:
        super().on_start()
        first = Call(None)
        first.value, first.done = self._value, True
        self._queue.append(first)
        self._inside = 1

    def restart(self, call: Call) -> None:
        call.value, call.error = fresh(self.stage.zero), None

    def left(self, calls: list[Call]) -> None:
        for call in calls:
            if call.error is None:
                self._value = call.value
