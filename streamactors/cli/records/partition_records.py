"""Reading records of partitions, without a group: what `consume` prints."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from streamactors.cli.bootstrap import consumer_settings
from streamactors.kafka.errors import NoBroker

if TYPE_CHECKING:
    from streamactors.cli.progress import Count
    from streamactors.kafka.record import ConsumerRecord
    from streamactors.kafka.subscriptions import TopicPartition

LIMIT: Final = 1_000
WAIT_S: Final = 0.2
SILENCE_S: Final = 10.0


def records_from(
    bootstrap: str,
    starts: Mapping[TopicPartition, int],
    *,
    until: Mapping[TopicPartition, int] | None = None,
    follow: bool = False,
    bar: Count | None = None,
) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of partitions from these offsets to the partitions' current ends; with `follow` without an end.

    `until`: the offset in each partition before which reading ends; with `follow` records are awaited until it is reached.
    A list is empty when no record came for WAIT_S. `bar` counts the offsets, to the ends. Raises KafkaError."""
    from streamactors.kafka.client.consumer import StreamConsumer

    settings = consumer_settings(bootstrap).with_auto_offset_reset("error")
    client = StreamConsumer(settings.with_property("fetch.wait.max.ms", 100))
    endless = follow and until is None
    try:
        there = {key: end for key, (_, end) in client.watermarks(starts).items()}
        ends = {
            key: end if until is None else until[key] if follow else min(until[key], end) for key, end in there.items()
        }
        ends = {key: end for key, end in ends.items() if endless or starts[key] < end}
        client.assign({key: starts[key] for key in ends})
        left = {key: starts[key] for key in ends}
        if bar is not None:
            bar.total = (bar.total or 0) + sum(end - starts[key] for key, end in ends.items())
        heard = time.monotonic()
        while endless or ends:
            found = client.poll(LIMIT, WAIT_S)
            records = []
            for run in found.runs:
                end = ends.get(run.key, 0)
                whole = endless or run.end <= end
                records += run.records if whole else [record for record in run.records if record.offset < end]
                if bar is not None and run.key in left:
                    bar.add(max(0, min(run.end, end) - left[run.key]))
                    left[run.key] = run.end
                if run.end >= end:
                    ends.pop(run.key, None)
            for key, position in found.ends:
                if position >= ends.get(key, position):  # an offset at the end may be that of a transaction's end
                    ends.pop(key, None)
            if found.runs or found.ends:
                heard = time.monotonic()
            elif not follow and time.monotonic() - heard > SILENCE_S:
                raise NoBroker(f"no broker at {bootstrap} (no answer for {SILENCE_S:g} s); is it still running?")
            yield records
    finally:
        client.close()
