"""A processor that does what a test says, and its driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.testing import TopologyDriver
from streamactors.windows import Processor, ProcessorContext, Record


def plain(outputs: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.record.key, each.record.value, each.record.timestamp) for each in outputs]


class Recording(Processor):
    """Does what the test says, with the context at hand."""

    def __init__(
        self,
        init: Callable[[ProcessorContext], object] = lambda c: None,
        process: Callable[[ProcessorContext, Record], object] = lambda c, r: None,
        on_timer: Callable[[ProcessorContext, Any, int], object] = lambda c, k, at: c.forward(Record(k, "timer", at)),
    ) -> None:
        self._do = init, process, on_timer

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self._do[0](context)

    def process(self, record: Record) -> None:
        self._do[1](self.context, record)

    def on_timer(self, key: Any, at: int) -> None:
        self._do[2](self.context, key, at)


def driver_of(*args: Any, semantics: Any = "strict", stores: Any = (), **kwargs: Any) -> TopologyDriver:
    return TopologyDriver(
        lambda topics: topics.stream("in").process(lambda: Recording(*args, **kwargs), stores=stores, name="p"),
        semantics=semantics,
    )
