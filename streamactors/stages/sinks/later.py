"""Sinks that are made while the stream runs: lazy_sink, future_sink, from_materializer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.blueprint.attributes import Attributes
from streamactors.stages.bases.later import FromMaterializer, FuturePart, LazyPart


class LazySink(LazyPart):
    """Call `make` for the sink when the first element comes. `make` may return a future or another awaitable of it.

    Materializes: a future of that sink's materialized value; it fails if there never was an element.
    Backpressures when: that sink does.           Cancels when: that sink does.
    Fails when: `make` raises, or that sink fails.
    """

    def __init__(self, make: Callable[[], Any], name: str = "lazy_sink") -> None:
        super().__init__(name, make, sink=True)


class FutureSink(FuturePart):
    """Send the elements to the sink that is a future's result.

    Materializes: a future of that sink's materialized value.
    Backpressures when: the future is not done, or that sink backpressures.   Cancels when: that sink does.
    Fails when: the future or that sink fails.
    """

    def __init__(self, future: Any) -> None:
        super().__init__("future_sink", future, sink=True)


class SinkFromMaterializer(FromMaterializer):
    """Make the sink when the run starts: `make(system, attributes)` returns it.

    Materializes: a future of that sink's materialized value.
    Backpressures when: that sink does.           Cancels when: that sink does.
    Fails when: `make` raises, or that sink fails.
    """

    def __init__(self, make: Callable[[Any, Attributes], Any]) -> None:
        super().__init__(make, sink=True)
