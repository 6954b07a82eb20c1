"""The stamps of a lane: the first hops of a record, from the moment when it was written, and the last one, its commit.

    created ──► appended ──► polled ──► taken from the buffer by the source ──► pushed ──► … sinks … ──► committed

A record's timestamp is of the wall clock of the machine that wrote it, in whole ms; every later time is of this process's monotonic clock. A record
that seems to be of the future shows that the two clocks disagree: its first hop is not counted, and the journey begins at the poll. So does that of a
record older than OLDEST_MS by the producer's time: that is the time of an event long ago. About once a second the broker is asked when a record was
appended. Then the journey has two hops before the poll, and it begins at the append if the producer's time says nothing.
Owner: a lane, on its island."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.island.run import Run
from streamactors.kafka.client.runs import has_append_time, made_at_ms
from streamactors.kafka.reading.delivery import Delivery

if TYPE_CHECKING:
    from streamactors.engine.hops.ledger import HopLedger, Sampler
    from streamactors.engine.hops.rows import HopRow
    from streamactors.engine.hops.stamp import Origin
    from streamactors.engine.logic import Logic
    from streamactors.kafka.sources.consumer_link import ConsumerLink
    from streamactors.kafka.subscriptions import TopicPartition

CREATED: Final = "created → polled"
APPENDED: Final = "appended → polled"
SENT: Final = "created → appended"
BUFFER: Final = "consumer's buffer"
OLDEST_MS: Final = 7 * 24 * 3_600_000.0
"""A topic keeps records for a week by default: an older timestamp of a producer hardly says when the record was written."""
SKEW_MS: Final = 1.0
"""Timestamps are in whole ms, so a record of this very ms may seem to be that much younger than it is."""


class LaneStamps:
    """Makes the stamps of one lane. `source`: as in its marks."""

    def __init__(self, logic: Logic, run: Run, source: Any, consumer: ConsumerLink) -> None:
        self._source = source
        assert run.hops is not None
        self._hops: HopLedger = run.hops
        self._sampler: Sampler = self._hops.sampler(source, logic)
        self._append_times = consumer.append_times()
        tracker = consumer.tracker
        if tracker is not None and consumer.commits_by_itself:
            self._hops.commits(source)
            tracker.when_committed.setdefault((self._hops, source), partial(_committed, self._hops, source))

    def due(self) -> float | None:
        """Return the time if the chunk that is taken now gets a stamp, else None."""
        now_ms = self._hops.now_ms()
        return now_ms if self._sampler.due(now_ms) else None

    def stamp(self, delivery: Delivery, end: int, taken_ms: float) -> Stamp:
        """Return the stamp of a chunk that was taken at `taken_ms` and pushed up to the position `end`."""
        hops, key, polled_ms = self._hops, (self._source, delivery.key), delivery.polled_ms
        last = delivery.records[-1]
        if end != delivery.end:  # the source could not take all of it
            last = next(record for record in reversed(delivery.records) if record.offset() < end)
        at_ms = made_at_ms(last)
        age_ms = 0.0 if at_ms is None else hops.wall_ms() - at_ms - (hops.now_ms() - polled_ms)  # when it was polled
        told = has_append_time(last)
        if at_ms is not None and age_ms > OLDEST_MS and not told:
            at_ms, age_ms = None, 0.0
        skewed = age_ms < -SKEW_MS
        stamp = hops.begin(key, (delivery.epoch, end), polled_ms - max(0.0, age_ms), skewed=skewed)
        if at_ms is not None:
            hop = APPENDED if told else CREATED
            stamp.end_hop(hops.row(self._source, hop), waited=True, at_ms=polled_ms)
        stamp.end_hop(hops.row(self._source, BUFFER), waited=True, at_ms=taken_ms)
        stamp.begin_at(taken_ms)
        if not (told or skewed):
            self._ask(stamp.origin, delivery.key, last.offset(), polled_ms, dated=at_ms is not None)
        return stamp

    def _ask(self, origin: Origin, key: TopicPartition, offset: int, polled_ms: float, *, dated: bool) -> None:
        """Ask when the record was appended. `dated`: the journey begins with the hop CREATED."""
        journey = ref(origin)  # what waits for the answer does not keep it
        hops, source, offset_ms = self._hops, self._source, self._hops.wall_ms() - self._hops.now_ms()

        def then(appended_wall_ms: int | None) -> None:
            origin = journey()
            if origin is None:
                return
            start: list[tuple[HopRow, float]] | None = None
            if appended_wall_ms is not None:
                waited_ms = polled_ms - (appended_wall_ms - offset_ms)
                sent_ms = polled_ms - origin.began_ms - waited_ms
                if waited_ms >= -SKEW_MS and (sent_ms >= -SKEW_MS or not dated):  # else the clocks disagree
                    waited_ms = min(max(0.0, waited_ms), polled_ms - origin.began_ms if dated else math.inf)
                    start = [(hops.row(source, APPENDED), waited_ms)]
                    if dated:
                        start.insert(0, (hops.row(source, SENT), polled_ms - origin.began_ms - waited_ms))
            hops.answered(origin, start, instead_of=int(dated))

        if self._append_times.answers:
            hops.asked(origin)  # before the question: its answer may come at once
        if not self._append_times.ask(key, offset, then):
            hops.answered(origin, None, instead_of=0)


def _committed(hops: HopLedger, source: Any, partition: Any, epoch: int, position: int) -> None:
    hops.committed((source, partition), (epoch, position))
