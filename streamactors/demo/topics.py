"""The demo's topics, and how they are reached."""

from __future__ import annotations

from typing import Final

from streamactors.demo.flight import ORIGINS
from streamactors.kafka import ConsumerSettings, MetadataClient, ProducerSettings

FLIGHTS: Final = "flights"
FLIGHTS_DEAD: Final = "flights-dead"
HOURS: Final = "departures-by-hour"
LATE: Final = "late-flights"
HOURS_THERE: Final = "departures-by-hour-on-executors"
LATE_THERE: Final = "late-flights-on-executors"
ALERTS: Final = "alerts"

PARTITIONS: Final = {
    **dict.fromkeys((FLIGHTS, HOURS, LATE, HOURS_THERE, LATE_THERE), len(ORIGINS)),
    **dict.fromkeys((FLIGHTS_DEAD, ALERTS), 1),
}

PATIENCE_MS: Final = 30_000
"""The broker, Spark and the graphs share a small machine, so the broker's first answer may take a while."""

CONFIG: Final = {"retention.ms": "-1"}
"""The records are as old as the flights of 2013, and a broker keeps records for a week by default."""


def consumer(bootstrap: str, group: str) -> ConsumerSettings:
    """Return settings that read a topic from its beginning, committed records only.

    A poll takes many records, so the buffer of a partition without demand fills soon, and the partition is paused."""
    return ConsumerSettings(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        properties={"isolation.level": "read_committed"},
        preflight_timeout_ms=PATIENCE_MS,
        max_poll_records=15_000,
        high_bytes=256 << 10,
        low_bytes=128 << 10,
    )


def producer(bootstrap: str) -> ProducerSettings:
    """Return settings of an idempotent producer with acknowledged writes."""
    return ProducerSettings(bootstrap, preflight_timeout_ms=PATIENCE_MS)


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the offset after the last record of each partition."""
    with MetadataClient(consumer(bootstrap, "ends")) as metadata:
        found = metadata.end_offsets(metadata.partitions_for(topic))
    return {key.partition: end for key, end in found.items()}
