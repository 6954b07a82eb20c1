"""What a consumer looks up: offsets, ends, positions and topics. No call here changes what is read.

Owner: StreamConsumer, which extends this class. Calls wait for the broker's answer, but `known_ends`, `received` and `positions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ClientConnection, ck
from streamactors.kafka.client.diagnosis.rights import Right
from streamactors.kafka.client.offsets.newest_ends import PartitionEnd, newest_ends
from streamactors.kafka.client.statistics import Received, received_of
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


class ConsumerLookups:
    """The look-ups of a client of librdkafka."""

    _settings: ConsumerSettings
    _connection: ClientConnection
    _client: Any
    _statistics: tuple[str, int] | None
    """The newest statistics, and the number of records delivered by then."""

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition at or after a time; the end where there is none."""
        found = self._ask("offsets for times", "offsets_for_times", partitions(times_ms))
        return {key: offset if offset >= 0 else ck.OFFSET_END for key, offset in found.items()}

    def stable_ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offsets: the ends of a bounded read. Raises ConsumerFailed if the topics must not be read: an empty
        partition is not fetched from, so no fetch would be refused."""
        wanted = list(keys)
        admin = Admin(self._settings)
        missing = admin.missing_rights(Right("READ", "TOPIC", key.topic) for key in wanted)
        if missing:
            raise ConsumerFailed(self._connection.not_allowed(*missing))
        return {key: end.offset for key, end in newest_ends(self._settings, wanted, committed=True).items()}

    def high_watermarks(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks, open transactions included. To a consumer of committed records librdkafka reports the last
        stable offset as the watermark, so an admin client asks."""
        return {key: end.offset for key, end in self.newest_ends(keys).items()}

    def newest_ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionEnd]:
        """Return the high watermarks, with the leader epoch and the topic id of each answer. Raises StaleAnswer, KafkaError."""
        return newest_ends(self._settings, keys)

    def topics(self) -> dict[str, int]:
        """Return the topics with their numbers of partitions."""
        try:
            known = self._client.list_topics(timeout=REQUEST_TIMEOUT_MS / 1_000).topics
        except ck.KafkaException as error:
            raise self._connection.failure(error, "topics") from None
        return {name: len(topic.partitions) for name, topic in known.items()}

    def watermarks(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return (first offset that exists, offset after the last record)."""
        found = {}
        for key in keys:
            try:
                found[key] = self._client.get_watermark_offsets(
                    ck.TopicPartition(*key), timeout=REQUEST_TIMEOUT_MS / 1_000
                )
            except ck.KafkaException as error:
                raise self._connection.failure(error, f"offsets of {key}") from None
        return found

    def committed(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; a partition without one is left out."""
        found = self._ask("committed offsets", "committed", [ck.TopicPartition(*key) for key in keys])
        return {key: offset for key, offset in found.items() if offset >= 0}

    def _ask(self, what: str, method: str, asked: list[Any]) -> dict[TopicPartition, int]:
        try:
            found = getattr(self._client, method)(asked, timeout=REQUEST_TIMEOUT_MS / 1_000)
        except ck.KafkaException as error:
            raise self._connection.failure(error, what) from None
        return {TopicPartition(p.topic, p.partition): p.offset for p in found}

    def known_ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks of the last fetches, without a request."""
        found = {key: self._client.get_watermark_offsets(ck.TopicPartition(*key), cached=True) for key in keys}
        return {key: ends[1] for key, ends in found.items() if ends is not None and ends[1] >= 0}

    def received(self) -> Received:
        """Return what was received from the broker; nothing before the first statistics."""
        if self._statistics is None:
            return Received()
        return received_of(*self._statistics)

    def positions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that will be read next, for partitions whose position is known."""
        found = self._client.position([ck.TopicPartition(*key) for key in keys])
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


def partitions(offsets: Mapping[TopicPartition, int] | Mapping[TopicPartition, int | None]) -> list[Any]:
    return [ck.TopicPartition(*key, ck.OFFSET_STORED if offset is None else offset) for key, offset in offsets.items()]
