"""The spans of records and their attributes, by OpenTelemetry's conventions for messaging.

    send T (PRODUCER) ── header ──► poll T (CLIENT) ── process T (CONSUMER) ── stage … (INTERNAL)
                                                              └─ commit T (CLIENT)

A `process` span is the child of the record's `send`, and links it. A `poll` span is in the trace of the first sampled record that the poll
has brought, and links all of them. What comes of several records, such as a batch, links their spans and has no parent.

Owner: the process (`switch.installed`). Thread-safe. Loaded with `tracing.install`, because it imports opentelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar, Token
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
)

from streamactors.tracing.place import Place
from streamactors.tracing.polled import PolledContexts
from streamactors.tracing.sampling import Gaps
from streamactors.tracing.traceparent import ContextReader, RemoteContext, parsed, written

MOST_KEY: Final = 128
"""The longest key that a span tells, in characters."""
MOST_LINKS: Final = 128
"""The links of one span; OpenTelemetry's own limit."""
MOST_ERROR: Final = 500
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_LINKS: ContextVar[tuple[SpanContext, ...]] = ContextVar(
    "streamactors sampled records of the current chunk", default=()
)


def _attributes(of: Place, operation: str, kind: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": of.topic,
    }
    if of.partition is not None and of.partition >= 0:
        told["messaging.destination.partition.id"] = str(of.partition)
    if of.offset is not None:
        told["messaging.kafka.offset"] = of.offset
    if (key := _text(of.key)) is not None:
        told["messaging.kafka.message.key"] = key
    if of.tombstone:
        told["messaging.kafka.message.tombstone"] = True
    if of.group:
        told["messaging.consumer.group.name"] = of.group
    if of.client:
        told["messaging.client.id"] = of.client
    if of.servers:
        host, _, port = of.servers.partition(",")[0].rpartition(":")
        if host and port.isdigit():
            told["server.address"], told["server.port"] = host.rpartition("://")[2].strip("[]"), int(port)
    return told


def _text(key: Any) -> str | None:
    """Return a key as printable text of bounded length; None for other keys."""
    if isinstance(key, bytes):
        try:
            key = key[: 4 * MOST_KEY].decode()
        except UnicodeDecodeError:
            return None
    if not isinstance(key, str) or not key.isprintable():
        return None
    return key[:MOST_KEY]


class Spans:
    """Makes the spans of this process. `stages`: also one for each stage. `export`: how a worker process exports its own; None: not at all.
    `owner`: the handle that removes them."""

    def __init__(
        self, tracer: Tracer, ratio: float, stages: bool, export: str | None, service_name: str | None, owner: object
    ) -> None:
        self._tracer = tracer
        self.stages = stages
        self.export = export
        self.ratio = ratio
        self.service_name = service_name
        self.owner = owner
        self._sends = Gaps(ratio)
        self._reads = Gaps(ratio)
        self._reader = ContextReader()
        self.polled = PolledContexts()

    # ── contexts ──────────────────────────────────────────────────────────────────────────────────────────────────

    def context_of(self, topic: str, headers: Iterable[tuple[str, Any]]) -> SpanContext | None:
        """Return the context of a record's headers if it is sampled."""
        found = self._reader.read(topic, headers)
        return None if found is None or not found.sampled else _remote(found)

    def has_context(self, headers: Iterable[tuple[str, Any]] | None) -> bool:
        """Return whether a record carries a context, also one that is not sampled."""
        return any(name == "traceparent" for name, _ in headers or ())

    @staticmethod
    def told_current() -> tuple[bytes, str] | None:
        """Return the context of the current span as the values of a header and its state, for another process; None if it is not sampled."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid or not context.trace_flags.sampled:
            return None
        (_, parent), *_ = written(context.trace_id, context.span_id, "")
        return parent, context.trace_state.to_header()

    @staticmethod
    def heard(parent: bytes, state: str) -> Span | None:
        """Return a stand-in for the span of another process, which has `told` its context. None for what is no context."""
        found = parsed(parent, state.encode("ascii", "replace"))
        return None if found is None else NonRecordingSpan(_remote(found))

    def for_workers(self) -> dict[str, Any]:
        """Return what `tracing.set_up` needs in a worker process, where no trace begins."""
        return {"export": self.export, "stages": self.stages, "service_name": self.service_name}

    @staticmethod
    def headers_of(span: Span) -> list[tuple[str, bytes]]:
        """Return the headers that carry a span's context."""
        context = span.get_span_context()
        return written(context.trace_id, context.span_id, context.trace_state.to_header())

    @staticmethod
    def current() -> SpanContext | None:
        """Return the context of the current span; None if there is none."""
        context = trace.get_current_span().get_span_context()
        return context if context.is_valid else None

    @staticmethod
    def links() -> tuple[SpanContext, ...]:
        """Return the spans of the sampled records that are in the current chunk together with others."""
        return _LINKS.get()

    @staticmethod
    def enter(span: Span) -> Callable[[], None]:
        """Make a span the current one; return what undoes it, on the same thread."""
        token = contexts.attach(trace.set_span_in_context(span))
        return lambda: contexts.detach(token)

    @staticmethod
    def enter_links(spans: Sequence[Span]) -> Callable[[], None]:
        """Note the sampled records that are in the current chunk together with others; return what undoes it, on the same thread."""
        token: Token[tuple[SpanContext, ...]] = _LINKS.set(
            tuple(span.get_span_context() for span in spans[:MOST_LINKS])
        )
        return lambda: _LINKS.reset(token)

    @staticmethod
    def raised(error: BaseException) -> None:
        """A function has raised an error with the element that the current span is about."""
        span = trace.get_current_span()
        if span.is_recording():
            failed(span, error)

    def reads(self, n: int) -> list[int]:
        """Return which of the next n records without a context begin a trace where they are read."""
        return self._reads.chosen(n)

    def sends(self, n: int) -> list[int]:
        """Return which of the next n records begin a trace where they are sent."""
        return self._sends.chosen(n)

    # ── spans; None where the sampler of the provider says no ─────────────────────────────────────────────────────

    def send(self, of: Place, parent: SpanContext | None, links: Sequence[SpanContext] = ()) -> Span | None:
        """Begin the span of a record that is sent. `parent` None: a new trace."""
        return self._begin(f"send {of.topic}", SpanKind.PRODUCER, _attributes(of, "send", "send"), parent, links)

    def poll(self, of: Place, contexts_: Sequence[SpanContext], n: int, began_ns: int) -> Span | None:
        """Make the span of a poll that has brought n records, among them the sampled ones of `contexts_`."""
        attributes = _attributes(of, "poll", "receive")
        attributes["messaging.batch.message_count"] = n
        parent = contexts_[0] if contexts_ else None
        span = self._begin(f"poll {of.topic}", SpanKind.CLIENT, attributes, parent, contexts_, began_ns)
        if span is not None:
            span.end()
        return span

    def process(self, of: Place, sent: SpanContext | None) -> Span | None:
        """Begin the span of a record that a source pushes."""
        links = () if sent is None else (sent,)
        return self._begin(f"process {of.topic}", SpanKind.CONSUMER, _attributes(of, "process", "process"), sent, links)

    def stage(self, name: str, parent: SpanContext) -> Span | None:
        """Begin the span of a stage that works on a sampled record."""
        return self._begin(f"stage {name[:MOST_KEY]}", SpanKind.INTERNAL, {"streamactors.stage": name}, parent, ())

    def batch(self, sink: str, epoch: int, records: Sequence[SpanContext]) -> Span | None:
        """Begin the span of a batch that Spark writes; it stems from several records, so it links them and has no parent."""
        attributes = {"streamactors.stage": sink, "streamactors.spark.epoch": epoch}
        return self._begin(f"batch {sink[:MOST_KEY]}", SpanKind.INTERNAL, attributes, None, records)

    def commit(self, of: Place, process: SpanContext, began_ns: int, error: BaseException | None) -> None:
        """Make the span of a commit that covers a record."""
        span = self._begin(
            f"commit {of.topic}", SpanKind.CLIENT, _attributes(of, "commit", "settle"), process, (), began_ns
        )
        if span is not None:
            if error is not None:
                failed(span, error)
            span.end()

    def _begin(
        self,
        name: str,
        kind: SpanKind,
        attributes: dict[str, Any],
        parent: SpanContext | None,
        links: Sequence[SpanContext],
        began_ns: int | None = None,
    ) -> Span | None:
        around = Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())
        span = self._tracer.start_span(
            name, around, kind, attributes, [Link(link) for link in links[:MOST_LINKS]], start_time=began_ns
        )
        return span if span.is_recording() else None


def _remote(found: RemoteContext) -> SpanContext:
    state = TraceState.from_header([found.state]) if found.state else None
    return SpanContext(found.trace_id, found.span_id, is_remote=True, trace_flags=_SAMPLED, trace_state=state)


def failed(span: Span, error: BaseException, *, itself: bool = True) -> None:
    """Set a span's status to an error. `itself`: the span's own work raised it, so the exception is an event of it."""
    text = f"{type(error).__name__}: {error}"[:MOST_ERROR]
    if itself:
        span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, text))
