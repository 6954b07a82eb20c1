"""A dead letter: consecutive records that a share group gives up, as records of its dead letter queue. Pure.

Headers, reasons and the rules for the topic: Apache Kafka's ShareGroupDLQStateManager (KIP-1191)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streamactors.broker.records.builder import BatchBuilder
from streamactors.broker.records.record import Headers

REJECTED: Final = "Offset rejected by client."
TOO_MANY_DELIVERIES: Final = "Offset delivery count exceeded the threshold."
ENABLED: Final = "errors.deadletterqueue.group.enable"
"""The setting of a topic that allows share groups to write to it."""
TOPIC_SETTINGS: Final = ((ENABLED, "true"), ("message.timestamp.type", "CreateTime"))
"""The settings of a topic that is created for dead letters."""

_INTERNAL: Final = "__"
_RECORD_OVERHEAD: Final = 80  # the most that lengths, deltas and counts of a record with six headers take

KeyValue = tuple[bytes | None, bytes | None]


class DeadLetter(NamedTuple):
    """Records of a partition that were delivered equally often and are given up for one reason."""

    group_id: str
    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    cause: str

    def headers(self, offset: int) -> Headers:
        """Return the headers of the record of the dead letter queue for one of the records."""
        return (
            ("__dlq.errors.topic", self.topic.encode()),
            ("__dlq.errors.partition", b"%d" % self.partition),
            ("__dlq.errors.offset", b"%d" % offset),
            ("__dlq.errors.group", self.group_id.encode()),
            ("__dlq.errors.delivery.count", b"%d" % self.deliveries),
            ("__dlq.errors.message", self.cause.encode()),
        )


class Part(NamedTuple):
    """A batch for the dead letter queue, and the first offset that is not in it."""

    batch: bytearray
    next_offset: int


def part_of(letter: DeadLetter, first: int, data: Mapping[int, KeyValue], now_ms: int, max_bytes: int) -> Part:
    """Return a batch of the letter from an offset on, with as many records as fit.

    `data` are keys and values that are copied. A record that is too large by itself is written without them."""
    builder = BatchBuilder()
    offset = first
    while offset <= letter.last:
        key, value = data.get(offset, (None, None))
        headers = letter.headers(offset)
        bare = sum(len(name) + len(content or b"") for name, content in headers) + _RECORD_OVERHEAD
        size = bare + len(key or b"") + len(value or b"")
        if builder.count and builder.size + size > max_bytes:
            break
        if builder.size + size > max_bytes:
            key = value = None
        builder.append(key, value, now_ms, headers)
        offset += 1
    return Part(builder.build(), offset)


class Queue(NamedTuple):
    """What is known of the topic of a group's dead letter queue. `enabled` is None if there is no such topic."""

    topic: str
    enabled: bool | None
    prefix: str
    created_when_missing: bool


def complaint(group_id: str, queue: Queue) -> str | None:
    """Return why the group may not write to its dead letter queue."""
    topic = queue.topic
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if topic.startswith(_INTERNAL):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
    if queue.enabled is False:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
    if queue.enabled is None and not queue.created_when_missing:
        return f"DLQ topic does not exist and auto create is disabled on cluster for share group: {group_id}, topic: {topic}."
    if not topic.startswith(queue.prefix):
        return (
            f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
            f"topic: {topic}, prefix: {queue.prefix}."
        )
    return None
