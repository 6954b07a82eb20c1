"""Step 1: the year's flights go to topic `flights`, a partition per origin, in the order in which they left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from streamactors import Keep, RunnableGraph, Source, StreamFuture
from streamactors.demo.flight import PARTITION_OF, Flight
from streamactors.demo.topics import FLIGHTS
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings


def graph(
    settings: ProducerSettings,
    planned: Iterable[tuple[Flight, bytes]],
    stored: Mapping[int, int],
    counted: Callable[[int], Any],
    per_second: int | None = None,
) -> RunnableGraph[StreamFuture[None]]:
    """Write the records that are not stored yet. `stored`: records per partition that an earlier run has written."""
    records = Source.from_iterable(missing(planned, stored))
    if per_second is not None:
        records = records.throttle(per_second, per="1s")

    def count(chunk: list[ProducerRecord]) -> list[ProducerRecord]:
        counted(len(chunk))
        return chunk

    written = Producer.plain_sink(settings).named("write flights")
    return records.map_chunks(count).named("count").to_mat(written, Keep.right).named("produce")


def missing(planned: Iterable[tuple[Flight, bytes]], stored: Mapping[int, int]) -> Iterator[ProducerRecord]:
    """Yield the records after each partition's end: the order is the same in every run, so the end of a partition is the number of records written."""
    seen: Counter[int] = Counter()
    for flight, raw in planned:
        partition = PARTITION_OF[flight.origin]
        seen[partition] += 1
        if seen[partition] > stored.get(partition, 0):
            yield ProducerRecord(FLIGHTS, raw, flight.origin, partition, flight.scheduled_at_ms)
