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
    """The stage of `Source.scan_async` and `Source.fold_async`."""

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
