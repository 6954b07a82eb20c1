"""PollTrace: finds the sampled records of a poll, where traces are installed, and makes its span. A poll without such records has no span.

Owner: the polling of one consumer, on the consumer's thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamactors.kafka.client.runs import PollResult, RecordRun, with_headers
from streamactors.kafka.settings import ConsumerSettings
from streamactors.tracing.place import Place

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from streamactors.kafka.reading.delivery import AssignedPartition
    from streamactors.kafka.subscriptions import TopicPartition
    from streamactors.tracing.spans import Spans


class PollTrace:
    """`partitions`: the assigned ones."""

    def __init__(
        self, spans: Spans, settings: ConsumerSettings, partitions: Mapping[TopicPartition, AssignedPartition]
    ) -> None:
        self._spans = spans
        self._group = settings.group_id
        self._client = dict(settings.properties).get("client.id")
        self._servers = settings.bootstrap_servers
        self._partitions = partitions
        self._began_ns = 0

    def begin(self) -> None:
        """A poll begins."""
        self._began_ns = time.time_ns()

    def polled(self, batch: PollResult) -> None:
        """A poll has brought records. The contexts of the sampled ones wait for the source that pushes them."""
        by_topic: dict[str, list[tuple[RecordRun, list[tuple[int, SpanContext | None]]]]] = {}
        for run in batch.runs:
            found = self._sampled(run)
            if found and run.key in self._partitions:
                by_topic.setdefault(run.key.topic, []).append((run, found))
        for topic, parts in by_topic.items():
            self._make_span(topic, parts, sum(len(run.records) for run in batch.runs if run.key.topic == topic))

    def _make_span(
        self, topic: str, parts: list[tuple[RecordRun, list[tuple[int, SpanContext | None]]]], n: int
    ) -> None:
        contexts = [context for _, found in parts for _, context in found if context is not None]
        one = parts[0][0].key.partition if len(parts) == 1 else None
        of = Place(topic, one, None, None, False, self._group, self._client, self._servers)
        span = self._spans.poll(of, contexts, n, self._began_ns)
        root = None if span is None else span.get_span_context()
        for run, found in parts:
            told = [(offset, context or root) for offset, context in found if context is not None or root is not None]
            if told:
                self._spans.polled.add(run.key, self._partitions[run.key].epoch, told)

    def _sampled(self, run: RecordRun) -> list[tuple[int, SpanContext | None]]:
        """Return offset and context of the sampled records; the context is None where the trace begins here."""
        spans, records = self._spans, run.records
        found: dict[int, SpanContext | None] = {}  # by number
        begins = set(spans.reads(len(records)))
        for n, headers in with_headers(records):
            context = spans.context_of(run.key.topic, headers)
            if context is not None:
                found[n] = context
            elif n in begins and spans.has_context(headers):
                begins.remove(n)  # its producer has decided
        for n in begins:
            found.setdefault(n, None)
        return [(records[n].offset(), found[n]) for n in sorted(found)]
