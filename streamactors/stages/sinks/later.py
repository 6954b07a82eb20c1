"""Sinks that are made while the stream runs: lazy_sink, future_sink, from_materializer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.blueprint.attributes import Attributes
from streamactors.stages.bases.later import FromMaterializer, FuturePart, LazyPart


class LazySink(LazyPart):
    """The stage of `Sink.lazy_sink` and `Sink.lazy_future_sink`."""

    def __init__(self, make: Callable[[], Any], name: str = "lazy_sink") -> None:
        super().__init__(name, make, sink=True)


class FutureSink(FuturePart):
    """The stage of `Sink.future_sink`."""

    def __init__(self, future: Any) -> None:
        super().__init__("future_sink", future, sink=True)


class SinkFromMaterializer(FromMaterializer):
    """The stage of `Sink.from_materializer`."""

    def __init__(self, make: Callable[[Any, Attributes], Any]) -> None:
        super().__init__(make, sink=True)
