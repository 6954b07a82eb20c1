"""Whether records lie between two offsets.

Offsets alone do not say so: transaction markers and deleted records have offsets, too, and no consumer commits a position behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


def any_record(
    settings: ConsumerSettings,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    go_on: Callable[[], bool],
) -> bool:
    """Return whether a committed record, or an open transaction, lies from `begins` to before `ends`; True if `go_on` has stopped the search."""
    reading = ConsumerSettings(
        settings.bootstrap_servers,
        None,
        "earliest",
        properties={**settings.security(), "isolation.level": "read_committed", "enable.partition.eof": True},
    )
    client = StreamConsumer(reading)
    try:
        client.assign(dict(begins))
        missing = set(begins)
        while missing and go_on():
            batch = client.poll(100, 0.5)
            if any(record.offset < ends[key] for key, records, _, _ in batch.runs for record in records):
                return True
            missing -= {key for key, position in batch.ends if position >= ends[key]}
            missing -= {key for key, _, _, end in batch.runs if end >= ends[key]}
            if any(key in missing for key, _ in batch.ends):
                return True  # a transaction is open
        return bool(missing)
    finally:
        client.close()
