"""The demo's topics, and how they are reached."""

from __future__ import annotations

from typing import Final

from streamactors.demo.flight import ORIGINS
from streamactors.kafka import ConsumerSettings, MetadataClient, ProducerSettings

FLIGHTS: Final = "flights"
FLIGHTS_DEAD: Final = "flights-dead"
HOURS: Final = "departures-by-hour"
LATE: Final = "late-flights"
ALERTS: Final = "alerts"

PARTITIONS: Final = {FLIGHTS: len(ORIGINS), FLIGHTS_DEAD: 1, HOURS: len(ORIGINS), LATE: len(ORIGINS), ALERTS: 1}


def consumer(bootstrap: str, group: str) -> ConsumerSettings:
    """Return settings that read a topic from its beginning, committed records only, with small buffers: pauses show early."""
    return ConsumerSettings(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        properties={"isolation.level": "read_committed"},
        high_bytes=1 << 20,
        low_bytes=512 << 10,
    )


def producer(bootstrap: str) -> ProducerSettings:
    """Return settings that write acknowledged, in order, once."""
    return ProducerSettings(bootstrap)


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the offset behind the last record of each partition."""
    with MetadataClient(ConsumerSettings(bootstrap)) as metadata:
        found = metadata.end_offsets(metadata.partitions_for(topic))
    return {key.partition: end for key, end in found.items()}
