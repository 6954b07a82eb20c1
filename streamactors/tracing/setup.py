"""Setting up traces: the exporter, the tracer provider and the switch. Loaded with the first `tracing.install`.

The library calls the API of opentelemetry; only what is made here is the SDK's."""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import urlsplit

from streamactors.errors import BuildError

if TYPE_CHECKING:
    from streamactors.tracing import Switch

_MISSING: Final = "traces need opentelemetry: pip install 'streamactors[otel]'"
_RATIOS: Final = ("traceidratio", "parentbased_traceidratio")
_ROOTS: Final = {"always_on": 1.0, "parentbased_always_on": 1.0, "always_off": 0.0, "parentbased_always_off": 0.0}
FLUSH_MS: Final = 5_000
_lock = threading.Lock()


class Tracing:
    """Installed traces. A context manager: `shutdown` at its end."""

    def __init__(self, switch: Switch, provider: Any, *, own: bool) -> None:
        self._switch = switch
        self._provider = provider
        self._own = own

    def flush(self, timeout_ms: int = FLUSH_MS) -> bool:
        """Export the spans that have ended; return False if that took too long."""
        flush = getattr(self._provider, "force_flush", None)
        return flush is None or bool(flush(timeout_ms))

    def shutdown(self) -> None:
        """Trace nothing that starts from now on, and export what has ended. The spans of streams that run still end, but are exported only if
        the provider is the program's own. Idempotent."""
        with _lock:
            if self._switch.installed is not None and self._switch.installed.owner is self:
                self._switch.installed = None
        atexit.unregister(self.shutdown)
        self.flush()
        if self._own:
            self._own = False
            self._provider.shutdown()

    def __enter__(self) -> Tracing:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def set_up(
    switch: Switch, export: str | None, ratio: float | None, stages: bool, provider: Any, service_name: str | None
) -> Tracing:
    """See `tracing.install`."""
    if ratio is not None and not (isinstance(ratio, int | float) and 0 <= ratio <= 1):
        raise BuildError(f"tracing.install: ratio must be between 0 and 1, got {ratio!r}")
    if provider is not None and export is not None:
        raise BuildError("tracing.install: give `export` or `provider`; a provider has its own exporters")
    try:
        from opentelemetry import trace

        from streamactors.tracing.spans import Spans
    except ImportError as error:
        raise BuildError(_MISSING) from error
    with _lock:
        if switch.installed is not None:
            raise BuildError("traces are installed already; `shutdown()` of the former handle removes them")
        own = False
        if (
            provider is None
            and export is None
            and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        ):
            provider = trace.get_tracer_provider()
        if provider is None:
            how = _exporter_named(export)
            provider = _own_provider(how, service_name)
            own = True
            export = how
        tracer = provider.get_tracer("streamactors", _version())
        if own and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(provider)  # spans that the functions of the user make are exported, too
        tracing = Tracing(switch, provider, own=own)
        atexit.register(tracing.shutdown)
        switch.installed = Spans(
            tracer, _ratio() if ratio is None else float(ratio), stages, export, service_name, tracing
        )
        return tracing


def set_up_worker(switch: Switch, settings: dict[str, Any]) -> Tracing:
    """Install traces in a worker process, as the parent says (`Spans.for_workers`).

    A provider of the user's stays in the parent. Then functions here see the context of their record, and their own spans go to the provider that they set."""
    from opentelemetry import trace

    export = settings["export"]
    provider = trace.get_tracer_provider() if export is None else None
    return set_up(switch, export, 0.0, settings["stages"], provider, settings["service_name"])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("streamactors")
    except PackageNotFoundError:
        return ""


def _ratio() -> float:
    """Return the share of new traces that the standard variables say."""
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if sampler in _RATIOS:
        given = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "1")
        try:
            ratio = float(given)
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise BuildError(f"OTEL_TRACES_SAMPLER_ARG must be between 0 and 1, got {given!r}")
        return ratio
    return _ROOTS.get(sampler, 1.0)


def _exporter_named(export: str | None) -> str:
    """Return "console", "none", "otlp" or "otlp:URL"."""
    named = export or os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if named in ("console", "none", "otlp"):
        return named
    kind, _, url = named.partition(":")
    parts = urlsplit(url)
    if kind == "otlp" and parts.scheme in ("http", "https") and parts.hostname:
        return named
    raise BuildError(f"traces go to console, otlp or otlp:URL with an http or https URL, got {named!r}")


def _own_provider(export: str, service_name: str | None) -> Any:
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
    except ImportError as error:
        raise BuildError(_MISSING) from error
    resource = Resource.create({} if service_name is None else {SERVICE_NAME: service_name})
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "streamactors"}))
    # A trace begins only where `Spans` has chosen a record, so the sampler of roots says yes; the parent decides elsewhere.
    sampled_here = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() in _RATIOS
    provider = TracerProvider(
        sampler=ParentBased(ALWAYS_ON) if sampled_here else None, resource=resource, shutdown_on_exit=False
    )
    if export == "console":
        out: Any = WholeLines(sys.stderr)
        exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\n")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    elif export != "none":
        provider.add_span_processor(BatchSpanProcessor(_otlp(export.partition(":")[2])))
    return provider


class WholeLines(io.TextIOBase):
    """A text stream that several threads write to. Python's own may lose a line that is written while another one is flushed."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            self._out.write(text)
            self._out.flush()
        return len(text)


def _otlp(url: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise BuildError(_MISSING) from error
    if not url:
        return OTLPSpanExporter()  # OTEL_EXPORTER_OTLP_ENDPOINT, else localhost:4318
    return OTLPSpanExporter(endpoint=url if urlsplit(url).path.strip("/") else url.rstrip("/") + "/v1/traces")
