"""Reading records of partitions, without a group: what `consume` and `dead-letters` print."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from streamactors.cli.bootstrap import consumer_settings
from streamactors.kafka.errors import NoBroker

if TYPE_CHECKING:
    from streamactors.kafka.record import ConsumerRecord
    from streamactors.kafka.subscriptions import TopicPartition

LIMIT: Final = 500
WAIT_S: Final = 0.2
SILENCE_S: Final = 10.0


def records_from(
    bootstrap: str, starts: Mapping[TopicPartition, int], *, follow: bool = False
) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of partitions from these offsets to the partitions' current ends; with `follow` without an end.

    A list is empty when no record came for WAIT_S. Raises KafkaError."""
    from streamactors.kafka.client.consumer import StreamConsumer

    settings = consumer_settings(bootstrap).with_auto_offset_reset("error")
    client = StreamConsumer(settings.with_property("fetch.wait.max.ms", 100))
    try:
        ends = {key: end for key, (_, end) in client.watermarks(starts).items() if follow or starts[key] < end}
        client.assign({key: starts[key] for key in ends})
        heard = time.monotonic()
        while follow or ends:
            found = client.poll(LIMIT, WAIT_S)
            records = []
            for run in found.runs:
                end = ends.get(run.key, 0)
                records += run.records if follow else [record for record in run.records if record.offset < end]
                if run.end >= end:
                    ends.pop(run.key, None)
            for key, _ in found.ends:
                ends.pop(key, None)
            if found.runs or found.ends:
                heard = time.monotonic()
            elif not follow and time.monotonic() - heard > SILENCE_S:
                raise NoBroker(f"no broker at {bootstrap} (no answer for {SILENCE_S:g} s); is it still running?")
            yield records
    finally:
        client.close()
