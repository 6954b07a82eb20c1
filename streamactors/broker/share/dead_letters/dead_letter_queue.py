"""Writes dead letters of share groups to their topics: creates a missing topic, finds the leader, and tries again.

Owner: `SharePartitions`, on the data plane. A letter goes batch by batch. A helper thread reads the originals that are copied, about those of one
batch at a time. After five tries a letter that cannot be written is logged and dropped, as in Apache Kafka: its records must not hold the share
partition back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.broker.coordinator.broker_channels import BrokerChannels
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.partition_table import AppendOutcome, PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.share.dead_letters.dead_letter import (
    ENABLED,
    TOPIC_SETTINGS,
    DeadLetter,
    KeyValue,
    Part,
    Queue,
    complaint,
    part_of,
)
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.share.group_config import ShareGroupConfig

_log = logging.getLogger("streamactors.broker.share")

TRIES: Final = 5
FIRST_PAUSE_MS: Final = 1_000.0
MOST_BYTES: Final = 1 << 20
"""Most bytes of a batch, whatever the topic allows."""
_READ_BYTES: Final = 256 << 10
_PRODUCE, _PRODUCE_VERSION, _ALL = 0, 9, -1
_TIMEOUT_MS: Final = 30_000

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

CreateTopicWith = Callable[[str, tuple[tuple[str, str | None], ...], Callable[[], object]], object]
"""Creates a topic with settings if that is possible, and calls the function when the attempt has ended."""


class DeadLetterQueue:
    """The way of this broker's dead letters to their topics. The counts are by group."""

    def __init__(self, node: Runtime, partitions: PartitionTable, create_topic: CreateTopicWith) -> None:
        self._node = node
        self._partitions = partitions
        self._create_topic = create_topic
        self._channels = BrokerChannels(node, "share-dead-letters")
        self._stopped = False
        self.failures: dict[str, int] = {}
        """Letters that were given up."""
        self.records: dict[str, int] = {}
        """Records that were written."""

    def stop(self) -> None:
        """Write no more. The next leader continues with what the share coordinator has stored."""
        self._stopped = True
        self._channels.close()

    def put(
        self, letter: DeadLetter, group: ShareGroupConfig, source: HostedPartition, then: Callable[[], object]
    ) -> None:
        """Write a letter; call `then` when it is written or given up."""
        why = complaint(letter.group_id, self._queue(group.dead_letter_topic))
        if why is not None:
            self.failures[letter.group_id] = self.failures.get(letter.group_id, 0) + 1
            log_limited(_log, logging.ERROR, why, "%s %s goes to no dead letter queue", why, _named(letter))
            # Not at once: `then` stores a change of the partition that has just begun one.
            self._node.data_plane.call_later(0, then)
            return
        _Delivery(self, letter, group.dead_letter_topic, then).begin(source if group.copies_dead_letters else None)

    def _queue(self, topic: str) -> Queue:
        config, image = self._node.config, self._node.metadata.image
        enabled = image.topic_overrides(topic).get(ENABLED, "false") == "true" if topic in image.topics else None
        return Queue(
            topic,
            enabled,
            config.errors_deadletterqueue_topic_name_prefix,
            config.errors_deadletterqueue_auto_create_topics_enable,
        )


class _Delivery:
    """One letter on its way, a batch at a time."""

    def __init__(self, queue: DeadLetterQueue, letter: DeadLetter, topic: str, then: Callable[[], object]) -> None:
        self._queue = queue
        self._node = queue._node
        self._letter = letter
        self._topic = topic
        self._then = then
        self._source: HostedPartition | None = None
        self._next = letter.first
        self._tries = 0

    def begin(self, source: HostedPartition | None) -> None:
        """Write the letter, with keys and values if there is a `source`."""
        self._source = source
        self._send()

    def _send(self) -> None:
        """Write the next batch, with its originals if they are copied."""
        source, first, last = self._source, self._next, self._letter.last
        if self._queue._stopped:
            return
        if self._topic not in self._node.metadata.image.topics:
            self._queue._create_topic(self._topic, TOPIC_SETTINGS, self._created)
        elif source is None:
            self._write(_Originals({}, last + 1))
        else:
            self._node.helpers.run(lambda: _originals(source, first, last), self._found)

    def _found(self, outcome: HelperOutcome[_Originals]) -> None:
        if outcome.error is not None:
            log_limited(
                _log, logging.WARNING, (self._letter.topic, type(outcome.error)),
                "%s goes to the dead letter queue without keys and values from offset %d on: %s",
                _named(self._letter), self._next, outcome.error,
            )  # fmt: skip
            self._source = None
            self._send()
        else:
            self._write(outcome.get())

    def _write(self, originals: _Originals) -> None:
        image = self._node.metadata.image
        topic = image.topics.get(self._topic)
        if topic is None:
            self._again(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        record = topic.partitions[self._letter.partition % len(topic.partitions)]
        most = int(image.topic_overrides(self._topic).get("max.message.bytes", self._node.config.message_max_bytes))
        known = self._letter._replace(last=originals.next_offset - 1)
        part = part_of(known, self._next, originals.data, self._node.clock.wall_ms(), min(most, MOST_BYTES))
        if record.leader == self._node.node_id:
            self._queue._partitions.append(
                self._topic, record.partition, part.batch, lambda outcome: self._appended(part, outcome)
            )
            return
        channel = self._queue._channels.to(record.leader)
        if channel is None:
            self._ended(part, ErrorCode.LEADER_NOT_AVAILABLE)
            return
        data = [{"index": record.partition, "records": bytes(part.batch)}]
        body: dict[str, Any] = {
            "transactional_id": None,
            "acks": _ALL,
            "timeout_ms": _TIMEOUT_MS,
            "topic_data": [{"name": self._topic, "partition_data": data}],
        }
        channel.request(_PRODUCE, _PRODUCE_VERSION, body, lambda answer: self._answered(part, answer))

    def _created(self) -> None:
        if self._topic in self._node.metadata.image.topics:
            self._send()
        else:
            self._again(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _appended(self, part: Part, outcome: AppendOutcome) -> None:
        self._ended(part, outcome.error)

    def _answered(self, part: Part, answer: ChannelAnswer) -> None:
        if answer.error is not None:
            self._ended(part, ErrorCode.NETWORK_EXCEPTION)
            return
        codes = [each.error_code for topic in answer.value.responses for each in topic.partition_responses]
        self._ended(part, ErrorCode(codes[0]) if codes else ErrorCode.UNKNOWN_SERVER_ERROR)

    def _ended(self, part: Part, error: ErrorCode) -> None:
        letter, queue = self._letter, self._queue
        if error:
            self._again(error)
            return
        queue.records[letter.group_id] = queue.records.get(letter.group_id, 0) + part.next_offset - self._next
        self._next, self._tries = part.next_offset, 0
        if self._next > letter.last:
            self._then()
        else:
            # Not at once: a log of one replica answers within the call, and a long letter would be a deep stack.
            self._node.data_plane.call_later(0, self._send)

    def _again(self, error: ErrorCode) -> None:
        queue, group_id = self._queue, self._letter.group_id
        if queue._stopped:
            return
        self._tries += 1
        if error in _AGAIN and self._tries < TRIES:
            self._node.data_plane.call_later(FIRST_PAUSE_MS * 2 ** (self._tries - 1), self._send)
            return
        queue.failures[group_id] = queue.failures.get(group_id, 0) + 1
        log_limited(
            _log, logging.ERROR, (self._topic, error),
            "%s cannot be written to %s, and is archived: %s", _named(self._letter), self._topic, error.name,
        )  # fmt: skip
        self._then()


class _Originals(NamedTuple):
    """Keys and values by offset; those that the log has lost are missing. Records from `next_offset` on were not read."""

    data: Mapping[int, KeyValue]
    next_offset: int


def _originals(source: HostedPartition, first: int, last: int) -> _Originals:
    """Return the keys and values of records from `first` on, as many as a batch has room for. Raises BrokerError if not even one can be read."""
    found: dict[int, KeyValue] = {}
    size, offset = 0, max(first, source.log_start_offset)
    try:
        while offset <= last and size < MOST_BYTES:
            with source.log.read(offset, _READ_BYTES, source.high_watermark) as piece:
                batches = list(iter_batches(piece.read()))
            if not batches:
                return _Originals(found, last + 1)
            for batch in batches:
                if batch.is_control or batch.base_offset > last or batch.last_offset < first:
                    continue
                for record in batch.records():
                    if first <= record.offset <= last:
                        found[record.offset] = record.key, record.value
                        size += len(record.key or b"") + len(record.value or b"")
            offset = batches[-1].next_offset
    except BrokerError:
        if not found:
            raise
    return _Originals(found, min(max(offset, first), last + 1))


def _named(letter: DeadLetter) -> str:
    return f"{letter.topic}-{letter.partition}, offsets {letter.first} to {letter.last}, of group {letter.group_id}"
