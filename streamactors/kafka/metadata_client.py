"""MetadataClient: what a broker knows of topics, partitions and offsets. Calls wait for the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from streamactors.errors import BuildError
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


class MetadataClient:
    """A context manager. Every call raises NoBroker, TopicNotFound or KafkaError in one sentence."""

    def __init__(self, settings: ConsumerSettings) -> None:
        if not isinstance(settings, ConsumerSettings):
            raise BuildError(f"MetadataClient expects ConsumerSettings, got {type(settings).__name__}")
        self._settings = settings
        self._client = StreamConsumer(replace(settings, auto_offset_reset="earliest"))
        self._client.preflight(())

    def topics(self) -> dict[str, int]:
        """Return the topics with their numbers of partitions."""
        return self._client.topics()

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises TopicNotFound."""
        self._client.preflight((topic,))
        return [TopicPartition(topic, number) for number in range(self._client.topics()[topic])]

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first offsets that are still there."""
        return {key: low for key, (low, _) in self._client.watermarks(_keys(partitions)).items()}

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offsets behind the last records."""
        return {key: high for key, (_, high) in self._client.watermarks(_keys(partitions)).items()}

    def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; partitions without one are left out."""
        return self._client.committed(_keys(partitions))

    def offsets_for_times(self, times_ms: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
        """Return the first offsets at or after times (ms since 1970); -1, the end, where there is none."""
        return self._client.offsets_at({TopicPartition(*key): time for key, time in times_ms.items()})

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def __enter__(self) -> MetadataClient:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _keys(partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]
