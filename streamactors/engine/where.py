"""Where a thread is: the graph and the stage whose handler it runs, and the record that the stage works on. For a line of the log.

Found by the frames of the thread, when somebody asks, so that streams pay nothing for it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from streamactors.engine.island import interpreter as _interpreter
from streamactors.engine.island.interpreter import Interpreter

_FILE: Final = _interpreter.__file__
MOST_FRAMES: Final = 200
MOST_VALUES: Final = 30


def where(error: BaseException | None = None) -> dict[str, Any]:
    """Return `stream` and `stage` of the thread that calls, with `topic`, `partition` and `offset` if the stage works on one record of Kafka, or did when
    `error` was raised. Where there is a span, also `trace_id` and `span_id`."""
    found: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1)
    handlers: list[FrameType] = []
    for _ in range(MOST_FRAMES):
        if frame is None or frame.f_code.co_filename == _FILE:
            break
        handlers.append(frame)
        frame = frame.f_back
    # A running frame keeps the locals that were looked at. So those of a thread that works for no stream are never looked at.
    runner = None if frame is None or frame.f_code.co_filename != _FILE else frame.f_locals.get("self")
    if isinstance(runner, Interpreter) and runner.active is not None:
        trace = None if error is None else error.__traceback__
        while trace is not None:
            found = _place_in(trace.tb_frame) or found
            trace = trace.tb_next
        if "offset" not in found:
            found.update(next(filter(None, map(_place_in, handlers)), {}))
        logic = runner.active
        sources = (each.name for each in runner.logics if not each.inlets)
        found["stream"] = logic.attributes.graph or next(sources, logic.name)
        found["stage"] = logic.name
    return {**found, **_span()}


def _place_of(element: Any) -> dict[str, Any]:
    record = getattr(element, "record", element)
    topic, partition, offset = (getattr(record, name, None) for name in ("topic", "partition", "offset"))
    if isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int):
        return {"topic": topic, "partition": partition, "offset": offset}
    return {}


def _place_in(frame: FrameType) -> dict[str, Any]:
    if frame.f_code.co_name == "<module>":
        return {}
    for value in list(frame.f_locals.values())[:MOST_VALUES]:
        kind = type(value)
        if kind.__module__.startswith("streamactors.kafka.") and (place := _place_of(value)):
            return place
    return {}


def _span() -> dict[str, str]:
    """Return the ids of OpenTelemetry's current span, if the process uses it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
