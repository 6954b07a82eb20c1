"""The only file that knows confluent-kafka: its clients, its errors and its settings, in this package's terms.

Owner: whoever makes a client; none of them is shared between threads. librdkafka's own log lines are kept from the terminal,
and the last of them becomes part of the error when nobody answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from streamactors.kafka.client_log import QUIET
from streamactors.kafka.errors import KafkaError, NoBroker, RecordError, TopicError, TopicNotFound

ck: Any = confluent_kafka  # its type hints leave out much of what its documentation names
ck_admin: Any = confluent_kafka.admin

CONNECT_TIMEOUT_MS: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 10_000
BEGINNING: Final = ck.OFFSET_BEGINNING


class TopicSummary(NamedTuple):
    """A topic in a list."""

    name: str
    partitions: int
    replicas: int


class PartitionDetail(NamedTuple):
    """A partition with who has it and where its records begin and end."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its partitions and the settings that are set on it."""

    name: str
    partitions: tuple[PartitionDetail, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Consumed:
    """One record. The timestamp is in milliseconds since 1970, None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


class _Connection:
    """What all clients share: the address, the settings that keep librdkafka quiet, and what it last complained about."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers: Final = bootstrap_servers
        self._complaint = ""

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "streamactors",
            "socket.connection.setup.timeout.ms": max(CONNECT_TIMEOUT_MS, 1_000),
            "error_cb": self._on_error,
            "logger": QUIET,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def _on_error(self, error: Any) -> None:
        self._complaint = error.str()

    def failure(self, error: ck.KafkaException) -> KafkaError:
        """Return what an exception of librdkafka means."""
        cause = error.args[0]
        if cause.code() in (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN, ck.KafkaError._TIMED_OUT):
            return self.nobody()
        if cause.code() in (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC):
            return TopicNotFound(cause.str())
        return KafkaError(f"{self.bootstrap_servers}: {cause.str()}")

    def nobody(self) -> NoBroker:
        """Return the error that nobody answers, with the reason librdkafka gave last."""
        reason = "no answer"
        for known in ("Connection refused", "Failed to resolve", "timed out", "Disconnected"):
            if known.lower() in self._complaint.lower():
                reason = known.lower()
        return NoBroker(
            f"no broker at {self.bootstrap_servers} ({reason} for {CONNECT_TIMEOUT_MS / 1000:g} s); "
            "start one with: streamactors broker"
        )


class Admin:
    """Topics: list, describe, create, alter, delete. Every call raises KafkaError when it cannot be done."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._connection = _Connection(bootstrap_servers)
        self._client = ck_admin.AdminClient(self._connection.settings())

    def topics(self) -> list[TopicSummary]:
        """Return all topics by name."""
        found = self._metadata().topics.values()
        summaries = (
            TopicSummary(t.topic, len(t.partitions), max((len(p.replicas) for p in t.partitions.values()), default=0))
            for t in found
        )
        return sorted(summaries)

    def describe(self, name: str) -> TopicDetail:
        """Return a topic with its partitions, offsets and own settings. Raises TopicNotFound."""
        topic = self._topic(name)
        ends = self._ends(name, sorted(topic.partitions))
        partitions = tuple(
            PartitionDetail(number, p.leader, tuple(p.replicas), tuple(p.isrs), *ends[number])
            for number, p in sorted(topic.partitions.items())
        )
        resource = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, name)
        entries = self._wait(self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_MS / 1000))
        own = ck_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        settings = {n: str(entry.value) for n, entry in sorted(entries.items()) if entry.source == own}
        return TopicDetail(name, partitions, settings)

    def create(self, name: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Create a topic; -1 asks for the broker's default. Raises TopicError."""
        self._metadata()
        topic = ck_admin.NewTopic(name, partitions, replicas, config=dict(settings))
        self._change(name, self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_MS / 1000))

    def delete(self, name: str) -> None:
        """Delete a topic and its records. Raises TopicNotFound, TopicError."""
        self._topic(name)
        self._change(name, self._client.delete_topics([name], request_timeout=REQUEST_TIMEOUT_MS / 1000))

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic so many partitions in all. Raises TopicNotFound, TopicError."""
        self._topic(name)
        more = ck_admin.NewPartitions(name, partitions)
        self._change(name, self._client.create_partitions([more], request_timeout=REQUEST_TIMEOUT_MS / 1000))

    def alter(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None removes one. Raises TopicNotFound, TopicError."""
        self._topic(name)
        operation = ck_admin.AlterConfigOpType
        changes = [
            ck_admin.ConfigEntry(
                setting,
                "" if value is None else value,
                incremental_operation=operation.DELETE if value is None else operation.SET,
            )
            for setting, value in settings.items()
        ]
        resource = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, name, incremental_configs=changes)
        self._change(
            name, self._client.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_MS / 1000)
        )

    def _metadata(self) -> Any:
        try:
            return self._client.list_topics(timeout=CONNECT_TIMEOUT_MS / 1000)
        except ck.KafkaException as error:
            self._client.poll(0)  # lets it say what went wrong
            raise self._connection.failure(error) from None

    def _topic(self, name: str) -> Any:
        topic = self._metadata().topics.get(name)
        if topic is None:
            raise TopicNotFound(
                f"no topic {name} at {self._connection.bootstrap_servers}; "
                f"create it with: streamactors topics create {name}"
            )
        return topic

    def _ends(self, name: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        found: dict[int, list[int]] = {number: [] for number in partitions}
        for spec in (ck_admin.OffsetSpec.earliest(), ck_admin.OffsetSpec.latest()):
            asked = {ck.TopicPartition(name, number): spec for number in partitions}
            for where, future in self._client.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_MS / 1000).items():
                found[where.partition].append(self._result(future).offset)
        return {number: (earliest, latest) for number, (earliest, latest) in found.items()}

    def _change(self, name: str, futures: Mapping[Any, Any]) -> None:
        try:
            self._wait(futures)
        except NoBroker:
            raise
        except KafkaError as error:
            raise TopicError(f"topic {name}: {error}") from None

    def _wait(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        return self._result(future)

    def _result(self, future: Any) -> Any:
        try:
            return future.result(timeout=REQUEST_TIMEOUT_MS / 1000)
        except ck.KafkaException as error:
            cause = error.args[0]
            if cause.code() == ck.KafkaError._TIMED_OUT:
                raise self._connection.failure(error) from None
            raise KafkaError(cause.str()) from None


class LineProducer:
    """Produces records one after the other and counts what was acknowledged."""

    def __init__(self, bootstrap_servers: str, *, compression: str = "none", acks: str = "all") -> None:
        self._connection = _Connection(bootstrap_servers)
        self._client = ck.Producer(
            self._connection.settings(
                compression_type=compression,
                acks=acks,
                enable_idempotence=acks == "all",
                linger_ms=20,
                topic_metadata_propagation_max_ms=REQUEST_TIMEOUT_MS,  # so long a new topic may be unknown
            )
        )
        self._failed: str | None = None
        self.delivered = 0

    def connect(self) -> None:
        """Raise NoBroker unless somebody answers."""
        try:
            self._client.list_topics(timeout=CONNECT_TIMEOUT_MS / 1000)
        except ck.KafkaException as error:
            self._client.poll(0)
            raise self._connection.failure(error) from None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int = -1,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Queue a record. Waits while the queue is full.

        Raises RecordError when an earlier one could not be delivered, or this one cannot be; those before it are delivered then.
        """
        while True:
            self._raise_failure()
            try:
                self._client.produce(
                    topic, value, key, partition=partition, headers=list(headers), on_delivery=self._on_delivery
                )
            except BufferError:
                self._client.poll(0.1)
            except ck.KafkaException as error:
                before = self.finish()
                raise RecordError(
                    f"topic {topic}: {error.args[0].str()} ({before} records were delivered before)"
                ) from None
            else:
                self._client.poll(0)
                return

    def finish(self) -> int:
        """Wait until everything is acknowledged; return how many records were. Raises RecordError."""
        while self._client.flush(0.5):
            self._raise_failure()
        self._raise_failure()
        return self.delivered

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered += 1
        elif self._failed is None:
            name = message.topic()
            self._failed = f"topic {name}: {error.str()}"
            if error.code() in (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC):
                self._failed += f"; create it with: streamactors topics create {name}"

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise RecordError(f"{self._failed} ({self.delivered} records were delivered before)")


class PartitionReader:
    """Reads assigned partitions from given offsets on, without a group."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._connection = _Connection(bootstrap_servers)
        self._client = ck.Consumer(
            self._connection.settings(
                group_id="streamactors-reader",  # librdkafka wants one; it is never joined and nothing is committed
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                allow_auto_create_topics=False,
                fetch_queue_backoff_ms=1,
                fetch_wait_max_ms=100,
            )
        )
        self._topic = ""
        self._unread: dict[int, int] = {}  # partition -> the end that was there at the start

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read these partitions, each from its offset (BEGINNING for the first that is there)."""
        self._topic = topic
        self._unread = {}
        for number in offsets:
            try:
                _, end = self._client.get_watermark_offsets(
                    ck.TopicPartition(topic, number), timeout=REQUEST_TIMEOUT_MS / 1000
                )
            except ck.KafkaException as error:
                raise self._connection.failure(error) from None
            self._unread[number] = end
        self._client.assign([ck.TopicPartition(topic, number, offset) for number, offset in offsets.items()])

    def offsets_at(self, topic: str, partitions: Sequence[int], timestamp_ms: int) -> dict[int, int]:
        """Return the first offset of each partition at or after a time; the end where there is none."""
        asked = [ck.TopicPartition(topic, number, timestamp_ms) for number in partitions]
        try:
            found = self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_MS / 1000)
        except ck.KafkaException as error:
            raise self._connection.failure(error) from None
        return {each.partition: each.offset for each in found}

    def batches(self, *, follow: bool, wait_s: float = 0.2) -> Iterator[list[Consumed]]:
        """Yield records as they come: those that were there when the partitions were assigned, or with `follow` all.

        An empty list says that nothing came for `wait_s` seconds. Raises KafkaError.
        """
        heard = time.monotonic()
        while follow or self._unread:
            batch = []
            for message in self._client.consume(500, wait_s):
                heard = time.monotonic()
                error = message.error()
                if error is None:
                    if follow or message.partition() in self._unread:
                        batch.append(_consumed(message))
                    self._read_to(message.partition(), message.offset() + 1)
                elif error.code() == ck.KafkaError._PARTITION_EOF:
                    self._unread.pop(message.partition(), None)
                else:
                    raise RecordError(f"{self._topic}-{message.partition()}: {error.str()}")
            if not batch and not follow and time.monotonic() - heard > REQUEST_TIMEOUT_MS / 1000:
                raise self._connection.nobody()
            yield batch

    def _read_to(self, partition: int, position: int) -> None:
        if position >= self._unread.get(partition, position + 1):
            del self._unread[partition]

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()


def _consumed(message: Any) -> Consumed:
    kind, timestamp = message.timestamp()
    return Consumed(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp if kind != ck.TIMESTAMP_NOT_AVAILABLE else None,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def live_members(bootstrap_servers: str, group: str) -> list[str]:
    """Return the members of a group, as client id and host; none when there is no such group. Raises KafkaError."""
    connection = _Connection(bootstrap_servers)
    client = ck_admin.AdminClient(connection.settings())
    try:
        (future,) = client.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_MS / 1000).values()
        found = future.result(timeout=REQUEST_TIMEOUT_MS / 1000)
    except ck.KafkaException as error:
        if error.args[0].code() == ck.KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise connection.failure(error) from None
    return [f"{member.client_id} at {member.host}" for member in found.members]
