"""The encoder of Metadata responses. Every client requests one every few minutes, with up to ten thousand partitions.

Layout: versions 0-13 of Kafka's MetadataResponse. An encoded topic, up to its partitions, depends only on the topic, the listener
and the version, so the handler caches it. A test compares every version with the general codec.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from streamactors.broker.protocol.header import response_frame
from streamactors.broker.protocol.primitives import INT32, array_length, nullable_string, string

METADATA: Final = 3
FIRST_FLEXIBLE: Final = 9
NOT_ASKED: Final = -(2**31)

_PARTITION: Final = Struct(">hii")
_PARTITION_EPOCH: Final = Struct(">hiii")
_INT16: Final = Struct(">h")


class PartitionMetadata(NamedTuple):
    """A partition in a response."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """A topic in a response: its encoding up to the partitions, and its authorised operations."""

    encoded: bytes
    operations: int = NOT_ASKED


class BrokerMetadata(NamedTuple):
    """A broker in a response."""

    node_id: int
    host: str
    port: int
    rack: str | None


class MetadataResponse(NamedTuple):
    """A whole response. `topics` are encoded for its version."""

    brokers: Sequence[BrokerMetadata]
    topics: Sequence[TopicMetadata]
    cluster_id: str | None
    controller_id: int
    operations: int = NOT_ASKED
    error_code: int = 0
    throttle_time_ms: int = 0


def encode_topic(
    version: int,
    name: str | None,
    topic_id: uuid.UUID | None,
    partitions: Sequence[PartitionMetadata],
    *,
    error_code: int = 0,
    internal: bool = False,
) -> bytes:
    """Return a topic up to its partitions. A null name is encoded as empty if the version has no null."""
    compact = version >= FIRST_FLEXIBLE
    out = bytearray(_INT16.pack(error_code))
    out += nullable_string(name if version >= 12 else name or "", compact)
    if version >= 10:
        out += bytes(16) if topic_id is None else topic_id.bytes
    if version >= 1:
        out.append(internal)
    out += array_length(len(partitions), compact)
    for partition in partitions:
        code, number, leader, epoch, replicas, isr, offline = partition
        out += (
            _PARTITION_EPOCH.pack(code, number, leader, epoch)
            if version >= 7
            else _PARTITION.pack(code, number, leader)
        )
        out += _ids(replicas, compact)
        out += _ids(isr, compact)
        if version >= 5:
            out += _ids(offline, compact)
        if compact:
            out.append(0)
    return bytes(out)


def encode_metadata(response: MetadataResponse, version: int, correlation_id: int) -> bytes:
    """Return the whole response frame."""
    compact = version >= FIRST_FLEXIBLE
    out = bytearray()
    if version >= 3:
        out += INT32.pack(response.throttle_time_ms)
    out += array_length(len(response.brokers), compact)
    for broker in response.brokers:
        out += INT32.pack(broker.node_id)
        out += string(broker.host, compact)
        out += INT32.pack(broker.port)
        if version >= 1:
            out += nullable_string(broker.rack, compact)
        if compact:
            out.append(0)
    if version >= 2:
        out += nullable_string(response.cluster_id, compact)
    if version >= 1:
        out += INT32.pack(response.controller_id)
    out += array_length(len(response.topics), compact)
    for topic in response.topics:
        out += topic.encoded
        if version >= 8:
            out += INT32.pack(topic.operations)
        if compact:
            out.append(0)
    if 8 <= version <= 10:
        out += INT32.pack(response.operations)
    if version >= 13:
        out += _INT16.pack(response.error_code)
    if compact:
        out.append(0)
    return response_frame(METADATA, version, correlation_id, bytes(out))


@lru_cache(4096)  # the few brokers of a cluster repeat
def _ids(brokers: tuple[int, ...], compact: bool) -> bytes:
    return array_length(len(brokers), compact) + b"".join(map(INT32.pack, brokers))
