"""LaneTrace: what a lane does with sampled records where traces are installed: each is pushed as a chunk of its own, under its `process` span.

Owner: the lane, on its island."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.logic import SourceLogic
from streamactors.engine.marks.marks import Position
from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.tracing.place import Place
from streamactors.tracing.run_trace import RunTrace, SampledRecord

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from streamactors.kafka.sources.consumer_link import ConsumerLink
    from streamactors.kafka.sources.fused_steps import FusedSteps


class LaneTrace:
    """`whole`: a chunk of records is one element, so none is cut."""

    def __init__(
        self, trace: RunTrace, logic: SourceLogic, consumer: ConsumerLink, steps: FusedSteps | None, *, whole: bool
    ) -> None:
        self._trace = trace
        self._logic = logic
        self._consumer = consumer
        self._steps = steps
        self._whole = whole
        self.has_cut = False
        """True if the delivery that `cut` returned last was cut: the rest is pushed in the same turn, as it would have been without tracing."""
        self._may_hold = True
        """False if `cut` has found that no record of the delivery is sampled."""
        self._polled = trace.spans.polled
        self._marked: dict[TopicPartition, Position] = {}  # the last mark of each partition

    def cut(self, delivery: Delivery, feed: Feed) -> Delivery:
        """Return the records up to the first sampled one, or this one alone; the feed gets the rest back."""
        records = delivery.records
        self.has_cut = False
        self._may_hold = True
        if not self._polled.count or not records or self._whole or len(records) == 1:
            return delivery
        found = self._polled.first_of(delivery.key, delivery.epoch, records)
        n = len(records) if found is None else (found[0] or 1)
        self._may_hold = found is not None and found[0] == 0
        if n >= len(records):
            return delivery
        self.has_cut = True
        delivery, rest = delivery.cut(n)
        feed.give_back(rest)
        return delivery

    def push(self, delivery: Delivery, source: Any, push: Callable[[Delivery], int]) -> int:
        """Push a delivery by `push`, and begin the span of its sampled record first. Return what `push` does."""
        before = self._marked.get(delivery.key)
        end = self._push(delivery, source, push, before if before is not None and before[0] == delivery.epoch else None)
        self._marked[delivery.key] = (delivery.epoch, end)
        return end

    def _push(self, delivery: Delivery, source: Any, push: Callable[[Delivery], int], before: Position | None) -> int:
        if not self._polled.count or not self._may_hold:
            return push(delivery)
        begun = []
        for record, context in self._polled.taken(delivery.key, delivery.epoch, delivery.records):
            begun.append(self._begin(delivery, record, context, source))
        opened = [record for record in begun if record is not None]
        if not opened:
            return push(delivery)
        spans = self._trace.spans
        alone = len(delivery.records) == 1
        if alone and source is not None and before is not None:
            # the mark before is passed on once more, now that connections look: it says nothing new, so nothing else is committed
            opened[0].start = before
            self._logic.out.mark({(source, delivery.key): before})
        leave = spans.enter(opened[0].span) if alone else spans.enter_links([record.span for record in opened])
        pace = None if self._steps is None else self._steps.pace
        learnt = None if pace is None else pace.learnt
        try:
            end = push(delivery)
        except BaseException as error:
            self._over(opened, error)
            raise
        finally:
            leave()
        if pace is not None and learnt is not None and alone:
            pace.learnt = learnt  # one record, interrupted by chance, must not make all later chunks short
        if self._logic.failure is not None:
            self._over(opened, self._logic.failure)
        elif source is None:
            self._over(opened, None)  # nothing follows the record from here
        return end

    def _begin(
        self, delivery: Delivery, message: Any, context: SpanContext | None, source: Any
    ) -> SampledRecord | None:
        spans, (topic, partition) = self._trace.spans, delivery.key
        value = message.value()
        of = Place(
            topic, partition, message.offset(), message.key(), value is None, self._consumer.control.group or None
        )
        span = spans.process(of, context)
        if span is None:
            return None
        place = (delivery.epoch, delivery.end)
        tracker = self._consumer.tracker
        settles = None if tracker is None or source is None else tracker.settles
        alone = len(delivery.records) == 1
        record = self._trace.begin(span, of, (source, delivery.key), place, alone=alone, settles=settles)
        if record is not None and spans.stages and self._logic.name:
            record.stage_entered(self._logic, self._logic.name)
        return record

    def _over(self, records: list[SampledRecord], error: BaseException | None) -> None:
        for record in records:
            self._trace.take_out(record)
            if error is None:
                record.end()
            else:
                record.failed(error, itself=True)
