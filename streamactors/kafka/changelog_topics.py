"""Changelog topics: as many partitions as the input, compacted; created when missing, checked when there, read to their end.

Owner: the thread that restores. What is read is committed: the former owner's open transaction ends first, because whoever
takes over fences it, or because the broker lets it time out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streamactors.kafka.client import BEGINNING, REQUEST_TIMEOUT_MS, ck, ck_admin
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.errors import KafkaError, TopicError, TopicNotFound
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.changelog import Change
from streamactors.windows.errors import RestoreError

READER: Final[Mapping[str, object]] = {
    "isolation.level": "read_committed",
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "max.partition.fetch.bytes": 4 << 20,
    "fetch.message.max.bytes": 4 << 20,
    "enable.partition.eof": True,
}
"""Read at full speed, to the end."""

TOPIC: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
ROWS: Final[Mapping[str, str]] = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""A topic of rows on their way: they carry event time, and the broker's retention goes by it: of rows that happened longer ago than
log.retention.hours it would delete what nobody has read yet. Kafka Streams creates its repartition topics so, too."""
NO_PROGRESS_S: Final = 90.0
"""Longer than librdkafka's transaction timeout: an abandoned transaction holds back what stands behind it for so long."""
_CREATED_S: Final = 10.0


class ChangelogTopics:
    """The changelog topics of one stage: `topics` by store."""

    def __init__(self, settings: ConsumerSettings, topics: Mapping[str, str]) -> None:
        self._settings = ConsumerSettings(
            settings.bootstrap_servers, None, "earliest", properties={**settings.security(), **READER}
        )
        self._topics = topics
        self._stores = {topic: store for store, topic in topics.items()}
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End a `read` that is going on; any thread."""
        self._cancelled.set()

    def read(self, inputs: Sequence[TopicPartition]) -> tuple[int, dict[int, list[Change]]]:
        """Return the number of partitions and the entries of each partition of `inputs`, the newest of each key.

        Raises RestoreError if input and changelog have different numbers of partitions, KafkaError."""
        client = StreamConsumer(self._settings)
        try:
            known = client.topics()
            partitions = self._partitions({key.topic: known.get(key.topic, 0) for key in inputs})
            self._prepare(client, known, partitions)
            numbers = sorted({key.partition for key in inputs})
            return partitions, self._read(client, numbers)
        finally:
            client.close()

    @staticmethod
    def _partitions(counts: Mapping[str, int]) -> int:
        if len(set(counts.values())) > 1:
            named = ", ".join(f"{topic} has {n}" for topic, n in sorted(counts.items()))
            raise RestoreError(
                f"topics read together need the same number of partitions, so that one key lies in one task: {named}"
            )
        return next(iter(counts.values()))

    def _prepare(self, client: StreamConsumer, known: Mapping[str, int], partitions: int) -> None:
        missing = []
        for topic in self._topics.values():
            if topic not in known:
                missing.append(topic)
            elif known[topic] != partitions:
                raise RestoreError(
                    f"changelog {topic} has {known[topic]} partitions, the input has {partitions}: its entries lie in other "
                    "partitions than their rows now; use another group id (and read the input again), or another input"
                )
        if missing:
            create_topics(self._settings, missing, partitions, TOPIC)
            _wait_for(client, missing)

    def _read(self, client: StreamConsumer, numbers: Sequence[int]) -> dict[int, list[Change]]:
        found: dict[int, dict[tuple[str, bytes], Change]] = {number: {} for number in numbers}
        keys = [TopicPartition(topic, number) for topic in self._topics.values() for number in numbers]
        ends = {key: high for key, high in _high_watermarks(client, keys).items() if high > 0}
        if ends:
            client.assign(dict.fromkeys(ends, BEGINNING))
        heard = time.monotonic()
        while ends and not self._cancelled.is_set():
            batch = client.poll(10_000, 0.5)
            for key, records, _, end in batch.runs:
                heard = time.monotonic()
                store, entries = self._stores[key.topic], found[key.partition]
                for record in records:
                    entry = record.key
                    if entry is None:
                        raise RestoreError(
                            f"changelog {key}: a record at {record.offset} has no key; no store wrote it"
                        )
                    entries.pop((store, entry), None)
                    if record.value is not None:
                        entries[store, entry] = Change(store, entry, record.value)
                _reached(ends, key, end)
            for key, position in batch.ends:
                _reached(ends, key, position)
            if ends and time.monotonic() - heard > NO_PROGRESS_S:
                named = ", ".join(f"{key} (to {end})" for key, end in list(ends.items())[:5])
                raise RestoreError(
                    f"nothing came of the changelogs {named} in {NO_PROGRESS_S:g} s: a transaction of their former owner may be "
                    "open; it ends with its transaction.timeout.ms"
                )
        return {number: list(entries.values()) for number, entries in found.items()}


def _reached(ends: dict[TopicPartition, int], key: TopicPartition, position: int) -> None:
    if key in ends and position >= ends[key]:
        del ends[key]


def create_topics(
    settings: ConsumerSettings, topics: Iterable[str], partitions: int, config: Mapping[str, str]
) -> None:
    """Create topics; those that somebody else has just created are there already. Raises TopicError."""
    admin = ck_admin.AdminClient({"log_level": 2, **settings.address()})
    wanted = [ck_admin.NewTopic(topic, partitions, -1, config=dict(config)) for topic in topics]
    for topic, future in admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_MS / 1_000).items():
        try:
            future.result(REQUEST_TIMEOUT_MS / 1_000)
        except ck.KafkaException as error:
            if error.args[0].code() != ck.KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicError(f"topic {topic} cannot be created: {error.args[0].str()}") from None


def ensure_topic(settings: ConsumerSettings, topic: str, partitions: int | None) -> None:
    """Create a topic of rows with so many partitions unless it is there; what is there keeps its settings.

    None: it must be there, with as many as it has; looked up before anything is written, or the broker might create it for the
    writer. Raises TopicNotFound, TopicError when it has another number of partitions, KafkaError."""
    client = StreamConsumer(settings)
    try:
        client.preflight(())
        known = client.topics().get(topic)
        if known is None:
            if partitions is None:
                servers = settings.bootstrap_servers
                raise TopicNotFound(f"no topic {topic} at {servers}; create it, or say with how many partitions")
            create_topics(settings, [topic], partitions, ROWS)
            _wait_for(client, [topic])
        elif partitions not in (None, known):
            raise TopicError(
                f"topic {topic} has {known} partitions, not {partitions}: rows would change their partition"
            )
    finally:
        client.close()


def _high_watermarks(client: StreamConsumer, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """A partition of a new topic has no leader for a moment, though the topic is known."""
    deadline = time.monotonic() + _CREATED_S
    while True:
        try:
            return client.high_watermarks(keys)
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            client.poll(1, 0.1)


def _wait_for(client: StreamConsumer, topics: Sequence[str]) -> None:
    """A new topic is known a moment after it was created."""
    deadline = time.monotonic() + _CREATED_S
    while missing := [topic for topic in topics if topic not in client.topics()]:
        if time.monotonic() > deadline:
            raise KafkaError(f"topic {missing[0]} was created, and is not there after {_CREATED_S:g} s")
        client.poll(1, 0.05)
