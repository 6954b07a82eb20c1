"""OpenTelemetry traces of records: `install` switches them on, for the whole process.

Nothing here imports opentelemetry before `install` is called, which needs the extra `otel`. `setup.py` makes the exporter, `spans.py` the spans and
their attributes, `traceparent.py` reads contexts from headers. `run_trace.py` follows the sampled records of one run by its marks,
`polled.py` holds the contexts of records that were polled and not pushed, and `settles.py` the records that wait for their commit.

Whoever meets records asks `switch.installed`: None unless traces are installed. The engine (`engine/island/traced.py`) and the connector
(`kafka/client/traced_producer.py`, `kafka/sources/lane_trace.py`) have a part each, which is loaded with the first traced run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.tracing.setup import Tracing
    from streamactors.tracing.spans import Spans

__all__ = ["install", "is_installed"]


class Switch:
    """Holds what traces this process; None unless traces are installed. Read when a run or a client is made, never per record."""

    installed: Spans | None = None


switch: Final = Switch()


def install(
    export: str | None = None,
    *,
    ratio: float | None = None,
    stages: bool = False,
    provider: Any = None,
    service_name: str | None = None,
) -> Tracing:
    """Trace the streams and producers that start from now on in this process; return the handle that ends it.

    `export`: "console" (a line of JSON per span on stderr), "otlp" or "otlp:URL" (OTLP over HTTP). None: the tracer provider that the program has set; if it has set none,
    what OTEL_TRACES_EXPORTER says, by default "otlp". The SDK reads the OTEL_* variables.
    `ratio`: the share of records without a context that begin a trace, 0 to 1. None: OTEL_TRACES_SAMPLER_ARG where OTEL_TRACES_SAMPLER is a
    ratio, else 1. A record that carries a context is traced if its producer has sampled it.
    `stages`: a span for each stage that a sampled record passes.
    `provider`: the opentelemetry TracerProvider to use. `service_name`: of the resource; None: OTEL_SERVICE_NAME, else "streamactors".

    Raises BuildError for a wrong value, if traces are installed already, and without the extra `otel`."""
    from streamactors.tracing.setup import set_up

    return set_up(switch, export, ratio, stages, provider, service_name)


def is_installed() -> bool:
    """Return whether traces are installed in this process."""
    return switch.installed is not None
