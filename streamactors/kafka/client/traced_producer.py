"""TracedProducer: the producer where traces are installed. It gives sampled records a `send` span, and the context of the span as headers.

A record is sampled if it is sent while a span is current that is sampled (such as that of the record it stems from), or if it begins a trace.
A chunk without a sampled record goes to librdkafka as it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.kafka.client.producer import Report, StreamProducer
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ProducerSettings
from streamactors.tracing import switch
from streamactors.tracing.place import Place
from streamactors.tracing.traceparent import replaced

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

    from streamactors.tracing.spans import Spans


class _Traced:
    """A record on its way, with its context among the headers."""

    __slots__ = ("original", "record", "span")

    def __init__(self, original: Any, record: ProducerRecord, span: Span) -> None:
        self.original = original
        self.record = record
        self.span = span


def _can_carry(record: Any) -> bool:
    """Return whether a record has a topic and headers to which a context can be added; the producer refuses others."""
    if type(record) is not ProducerRecord or not isinstance(record.topic, str):
        return False
    headers = record.headers
    return headers is None or (
        isinstance(headers, list | tuple) and all(isinstance(each, tuple) and len(each) == 2 for each in headers)
    )


class TracedProducer(StreamProducer):
    """`errors_only`: the broker's acknowledgement is the commit of the transaction, which ends the spans."""

    def __init__(self, settings: ProducerSettings, spans: Spans, *, errors_only: bool = False) -> None:
        super().__init__(settings, errors_only=errors_only)
        self._spans = spans
        self._errors_only = errors_only
        self._client_id: str | None = dict(settings.properties).get("client.id")
        self._open: set[Span] = set()  # not acknowledged
        self._open_lock = threading.Lock()
        self._refused_for_now: _Traced | None = None  # the queue was full; it is sent again
        self._sent: dict[int, _Traced] = {}  # of the open transaction, by the id of the original, until `as_sent`

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, record: ProducerRecord, report: Report) -> None:
        again = self._refused_for_now is not None and self._refused_for_now.original is record
        if not _can_carry(record) or not (again or self._chosen(1)):
            super().send(record, report)
            return
        traced = self._begin(record)
        if traced is None:
            super().send(record, report)
            return
        try:
            super().send(traced.record, self._reporting(traced, report))
        except BufferError:
            self._refused_for_now = traced
            raise
        except Exception as error:
            self._end(traced.span, error)
            raise

    def produce_all(
        self, records: Sequence[Any], reports: Iterable[Report], refused: Callable[[int, BaseException], None]
    ) -> int:
        chosen = self._chosen(len(records))
        if self._refused_for_now is not None and records and records[0] is self._refused_for_now.original:
            chosen = {0, *(chosen or ())}
        if not chosen:
            return super().produce_all(records, reports, refused)
        rest = iter(reports)
        at = 0
        for n in sorted(chosen):
            if n > at:
                sent = self._plain(records[at:n], rest, refused, at)
                at += sent
                if at < n:
                    return at
            if not self._send_traced(records[n], next(rest), refused, n):
                return n
            at = n + 1
        return at + self._plain(records[at:], rest, refused, at)

    def _plain(
        self, records: Sequence[Any], reports: Iterable[Report], refused: Callable[[int, BaseException], None], at: int
    ) -> int:
        if not records:
            return 0
        return super().produce_all(records, reports, lambda n, error: refused(at + n, error))

    def _send_traced(self, record: Any, report: Report, refused: Callable[[int, BaseException], None], n: int) -> bool:
        """Send a record; return False if the queue is full."""
        traced = self._begin(record) if _can_carry(record) else None
        if traced is None:
            return super().produce_all([record], [report], lambda _, error: refused(n, error)) == 1

        def refuse(_: int, error: BaseException) -> None:
            self._end(traced.span, error)
            refused(n, error)

        if super().produce_all([traced.record], [self._reporting(traced, report)], refuse) == 1:
            if self._errors_only:
                self._sent[id(record)] = traced
            return True
        self._refused_for_now = traced
        return False

    def as_sent(self, records: Sequence[ProducerRecord]) -> Sequence[ProducerRecord]:
        if not self._sent:
            return records
        found = [self._sent.get(id(record)) for record in records]
        for record in records:
            self._sent.pop(id(record), None)
        return [record if sent is None else sent.record for record, sent in zip(records, found, strict=True)]

    def send_all(self, records: Iterable[ProducerRecord], report: Report) -> None:
        super().send_all(map(self._sent_again, records), report)

    def _sent_again(self, record: ProducerRecord) -> ProducerRecord:
        """A record of an aborted transaction that was sampled has another span, the child of its first one."""
        parent = self._spans.context_of(record.topic, record.headers) if record.headers else None
        span = None if parent is None else self._spans.send(self._place(record), parent)
        if span is None:
            return record
        with self._open_lock:
            self._open.add(span)
        return record._replace(headers=replaced(record.headers, self._spans.headers_of(span)))

    def _chosen(self, n: int) -> set[int] | None:
        """Return the numbers of those of the next n records that are sampled; None if there are none."""
        current = self._spans.current()
        if current is not None:
            return set(range(n)) if current.trace_flags.sampled else None
        if self._spans.links():
            return {0} if n else None  # one of a batch tells of them all
        return set(self._spans.sends(n)) or None

    def _begin(self, record: ProducerRecord) -> _Traced | None:
        waiting, self._refused_for_now = self._refused_for_now, None
        if waiting is not None:
            if waiting.original is record:
                return waiting
            self._end(waiting.span, ProducerFailed("the record was not sent: the queue was full"))
        spans = self._spans
        parent: SpanContext | None = spans.current()
        span = spans.send(self._place(record), parent, () if parent is not None else spans.links())
        if span is None:
            return None
        with self._open_lock:
            self._open.add(span)
        headers = replaced(record.headers, spans.headers_of(span))
        return _Traced(record, record._replace(headers=headers), span)

    def _place(self, record: ProducerRecord) -> Place:
        topic, value, key, partition, *_ = record
        servers = self.settings.bootstrap_servers
        return Place(topic, partition, None, key, value is None, None, self._client_id, servers)

    # ── the end of a span ─────────────────────────────────────────────────────────────────────────────────────────

    def _reporting(self, traced: _Traced, report: Report) -> Report:
        def reported(error: Any, message: Any) -> None:
            span = traced.span
            if error is None:
                span.set_attribute("messaging.destination.partition.id", str(message.partition()))
                span.set_attribute("messaging.kafka.offset", message.offset())
                self._end(span, None)
            else:
                self._end(span, self.not_delivered(traced.original, error))
            report(error, message)

        return reported

    def _end(self, span: Span, error: BaseException | None) -> None:
        from streamactors.tracing.spans import failed

        with self._open_lock:
            if span not in self._open:
                return
            self._open.discard(span)
        if error is not None:
            failed(span, error)
        span.end()

    def _end_all(self, error: BaseException | None) -> None:
        self._sent.clear()
        with self._open_lock:
            left = list(self._open)
        for span in left:
            self._end(span, error)

    def commit(self, timeout_s: float) -> None:
        super().commit(timeout_s)
        self._end_all(None)

    def abort(self, timeout_s: float) -> None:
        try:
            super().abort(timeout_s)
        finally:
            self._end_all(ProducerFailed("the transaction was aborted"))

    def _close(self, drop: bool) -> None:
        try:
            super()._close(drop)
        finally:
            self._end_all(ProducerFailed("the producer was closed before the record was acknowledged"))


def producer_of(settings: ProducerSettings, *, errors_only: bool = False) -> StreamProducer:
    """Return a producer of records of the user; a traced one where traces are installed."""
    if switch.installed is None:
        return StreamProducer(settings, errors_only=errors_only)
    return TracedProducer(settings, switch.installed, errors_only=errors_only)
