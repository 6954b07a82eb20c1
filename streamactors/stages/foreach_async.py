"""foreach_async: call a function with several elements at a time, for its effect."""

from __future__ import annotations

from typing import Any

from streamactors.engine.blueprint import Joined, Module, StageModule, keep_right
from streamactors.stages.async_ import MapAsyncUnordered
from streamactors.stages.sinks import Ignore


class ForeachAsync(MapAsyncUnordered[Any, Any]):
    """Call a function with up to `parallelism` elements at a time.

    Backpressures when: `parallelism` calls run.   Fails when: a call fails, at once.
    Supervision: resume and restart drop the element.
    Marks: done when all calls for what came before them have ended.
    """

    name = "foreach_async"


def foreach_async(parallelism: int, fn: Any) -> Module:
    """Return the sink: the calls, and nothing behind them."""
    return Joined(StageModule(ForeachAsync(parallelism, fn)), StageModule(Ignore()), keep_right)
