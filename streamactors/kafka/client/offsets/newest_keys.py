"""The keys of the newest records of a topic: one of each partition that has a record with a key among its last ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_TAIL: Final = 50
"""Number of offsets of a partition that are read. Transaction markers and records without a key are among them."""
_PATIENCE_S: Final = 10.0


def newest_keys(settings: ConsumerSettings, admin: Admin, topic: str) -> list[bytes]:
    """Return the newest keys of a topic, at most one of a partition. Raises NoBroker if the broker does not answer."""
    partitions = admin.partitions_of(topic)
    first, ends = (admin.offsets(dict.fromkeys(partitions, at)) for at in (EARLIEST, LATEST))
    begins = {key: max(first[key], end - _TAIL) for key, end in ends.items() if first[key] < end}
    return list(dict(_tail(settings, begins)).values()) if begins else []


def _tail(settings: ConsumerSettings, begins: dict[TopicPartition, int]) -> Iterator[tuple[TopicPartition, bytes]]:
    """Yield the keys of the records from `begins` on, until each partition has ended."""
    reading = ConsumerSettings(
        settings.bootstrap_servers,
        None,
        "earliest",
        properties={**settings.security(), "isolation.level": "read_committed", "enable.partition.eof": True},
    )
    client = StreamConsumer(reading)
    try:
        client.assign(begins)
        missing = set(begins)
        until = time.monotonic() + _PATIENCE_S
        while missing and time.monotonic() < until:
            batch = client.poll(_TAIL * len(begins), 0.5)
            for key, records, _, _ in batch.runs:
                for record in records:
                    if record.key is not None:
                        yield key, record.key
            missing -= {key for key, _ in batch.ends}
    finally:
        client.close()
