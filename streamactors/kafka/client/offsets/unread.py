"""Whether records lie between two offsets.

Offsets alone do not say so: transaction markers and deleted records have offsets, too, and no consumer commits a position after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


class Unread:
    """Looks whether a committed record, or an open transaction, lies from `begins` to before `ends`. Owner: the thread that made it."""

    def __init__(
        self, settings: ConsumerSettings, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        reading = ConsumerSettings(
            settings.bootstrap_servers,
            None,
            "earliest",
            properties={**settings.security(), "isolation.level": "read_committed", "enable.partition.eof": True},
        )
        self._ends = ends
        self._missing = set(begins)
        self._client = StreamConsumer(reading)
        self._client.assign(dict(begins))

    def found(self, timeout_s: float) -> bool | None:
        """Return True if a record or an open transaction lies there, False if there is none, None if that is not known yet."""
        ends, missing = self._ends, self._missing
        batch = self._client.poll(100, timeout_s)
        if any(record.offset < ends[key] for key, records, _, _ in batch.runs for record in records):
            return True
        missing -= {key for key, position in batch.ends if position >= ends[key]}
        missing -= {key for key, _, _, end in batch.runs if end >= ends[key]}
        if any(key in missing for key, _ in batch.ends):
            return True  # a transaction is open
        return None if missing else False

    def close(self) -> None:
        """Stop looking."""
        self._client.close()


def any_record(
    settings: ConsumerSettings,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    go_on: Callable[[], bool],
) -> bool:
    """Return whether a committed record, or an open transaction, lies from `begins` to before `ends`; True if `go_on` has stopped the search."""
    unread, found = Unread(settings, begins, ends), None
    try:
        while found is None and go_on():
            found = unread.found(0.5)
        return found is not False
    finally:
        unread.close()
