"""MetadataClient and AsyncMetadataClient: topics, partitions and offsets of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from streamactors.errors import BuildError
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition, checked_partition

P = ParamSpec("P")
T = TypeVar("T")


class MetadataClient:
    """A context manager. Every call waits for the broker's answer; it raises NoBroker, TopicNotFound or KafkaError."""

    def __init__(self, settings: ConsumerSettings) -> None:
        if not isinstance(settings, ConsumerSettings):
            raise BuildError(f"MetadataClient expects ConsumerSettings, got {type(settings).__name__}")
        self._group = settings.group_id or ""
        self._committed = str(settings.properties.get("isolation.level", "read_committed")) == "read_committed"
        self._admin = Admin(settings)
        try:
            self._admin.topics()
        except BaseException:
            self.close()
            raise

    def topics(self) -> dict[str, int]:
        """Return the topics with their numbers of partitions."""
        return {topic.name: topic.partitions for topic in self._admin.topics()}

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises TopicNotFound."""
        return self._admin.partitions_of(topic)

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first offsets that exist."""
        return self._admin.offsets(dict.fromkeys(_keys(partitions), EARLIEST))

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offsets after the last records that a consumer with these settings can read."""
        return self._admin.offsets(dict.fromkeys(_keys(partitions), LATEST), committed=self._committed)

    def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; a partition without one is left out."""
        return self._admin.committed(self._group, _keys(partitions))

    def committed_metadata(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, str]:
        """Return the texts that were committed with the group's offsets; a partition without one is left out."""
        found = self._admin.committed_with_metadata(self._group, _keys(partitions))
        return {key: text for key, (_, text) in found.items() if text}

    def offsets_for_times(self, times_ms: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
        """Return the first offsets at or after times (ms since 1970); -1 where there is no such record."""
        return self._admin.offsets({checked_partition(key): time for key, time in times_ms.items()})

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def __enter__(self) -> MetadataClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncMetadataClient:
    """As MetadataClient, for coroutines: `async with AsyncMetadataClient(settings) as metadata`. The answers are waited for on a thread of
    this client's own, one request after the other."""

    def __init__(self, settings: ConsumerSettings) -> None:
        if not isinstance(settings, ConsumerSettings):
            raise BuildError(f"AsyncMetadataClient expects ConsumerSettings, got {type(settings).__name__}")
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "metadata client")
        self._client: MetadataClient | None = None

    async def __aenter__(self) -> AsyncMetadataClient:
        try:
            self._client = await self._on_thread(MetadataClient, self._settings)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._open(), None
        try:
            await self._on_thread(client.close)
        finally:
            self._thread.shutdown(wait=False)

    async def _on_thread(self, fn: Callable[P, T], *arguments: P.args, **_: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, fn, *arguments)

    def _open(self) -> MetadataClient:
        if self._client is None:
            raise BuildError("AsyncMetadataClient is used as: async with AsyncMetadataClient(settings) as metadata")
        return self._client

    async def topics(self) -> dict[str, int]:
        """Return the topics with their numbers of partitions."""
        return await self._on_thread(self._open().topics)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises TopicNotFound."""
        return await self._on_thread(self._open().partitions_for, topic)

    async def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first offsets that exist."""
        return await self._on_thread(self._open().beginning_offsets, partitions)

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offsets after the last records that a consumer with these settings can read."""
        return await self._on_thread(self._open().end_offsets, partitions)

    async def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; a partition without one is left out."""
        return await self._on_thread(self._open().committed, partitions)

    async def committed_metadata(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, str]:
        """Return the texts that were committed with the group's offsets; a partition without one is left out."""
        return await self._on_thread(self._open().committed_metadata, partitions)

    async def offsets_for_times(self, times_ms: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
        """Return the first offsets at or after times (ms since 1970); -1 where there is no such record."""
        return await self._on_thread(self._open().offsets_for_times, times_ms)


def _keys(partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    return [checked_partition(partition) for partition in partitions]
