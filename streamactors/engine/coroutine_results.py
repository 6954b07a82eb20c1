"""A check of the user's functions: one that returns coroutine objects, as `lambda x: store(x)` with an `async def store`, has done nothing.

A coroutine object is always true, so a predicate would pass every element. Stages call the checked function with their first elements, and
the function itself with the others: later elements cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any


class RefusingCoroutines:
    """Calls `fn`; raises TypeError when it returns a coroutine object. `passed`: a call has returned something else."""

    __slots__ = ("fn", "passed", "stage")

    def __init__(self, fn: Callable[..., Any], stage: str) -> None:
        self.fn = fn
        self.stage = stage
        self.passed = False

    def __call__(self, *arguments: Any) -> Any:
        result = self.fn(*arguments)
        if type(result) is CoroutineType:
            raise coroutine_refused(result, self.stage)
        self.passed = True
        return result


def coroutine_refused(result: CoroutineType[Any, Any, Any], stage: str) -> TypeError:
    """Close the coroutine object that a function of `stage` has returned; return the error."""
    result.close()
    return TypeError(
        f"{stage}: the function returned a coroutine object ({result.__qualname__}), which nobody awaits and which is always true; "
        f"{_WAY_OUT.get(stage, 'await it in a stage before: map_async(n, fn)')}"
    )


_WAY_OUT = {
    "scan": "use scan_async",
    "fold": "use fold_async",
    "foreach": "use foreach_async(n, fn)",
    "filter": "await it in a stage before: map_async(n, fn), where fn returns the element and the answer",
    "filter_not": "await it in a stage before: map_async(n, fn), where fn returns the element and the answer",
}
