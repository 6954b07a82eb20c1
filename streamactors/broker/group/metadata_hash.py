"""The hash of the topics that a group subscribes to: when it changes, the group needs a new target assignment.

Owner: the coordinator of groups. Pure. Source: KIP-1101; measured on records of Apache Kafka 4.4.0."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import lru_cache
from struct import pack

from xxhash import xxh3_64_intdigest

from streamactors.broker.metadata.image import MetadataImage, TopicImage

_Racks = tuple[tuple[str, ...], ...]


def metadata_hash(image: MetadataImage, names: Iterable[str]) -> int:
    """Return the hash of the topics that exist, signed; 0 if there is none."""
    topics = [image.topics[name] for name in sorted(names) if name in image.topics]
    if not topics:
        return 0
    return _signed(xxh3_64_intdigest(b"".join(pack("<Q", _of_topic(image, topic)) for topic in topics)))


def _of_topic(image: MetadataImage, topic: TopicImage) -> int:
    racks: _Racks = ()
    if any(broker.rack is not None for broker in image.brokers.values()):
        racks = tuple(_racks(image, each.replicas) for each in topic.partitions)
    return topic_hash(topic.topic_id, topic.name, len(topic.partitions), racks)


def _racks(image: MetadataImage, replicas: Iterable[int]) -> tuple[str, ...]:
    brokers = [image.brokers[each] for each in replicas if each in image.brokers]
    return tuple(sorted({broker.rack for broker in brokers if broker.rack is not None}))


@lru_cache(maxsize=4_096)
def topic_hash(topic_id: uuid.UUID, name: str, partitions: int, racks: _Racks = ()) -> int:
    """Return the hash of a topic, unsigned; `racks` are those of each partition's replicas."""
    high, low = topic_id.int >> 64, topic_id.int % (1 << 64)
    out = bytearray(pack("<BQQ", 0, high, low) + _text(name) + pack("<i", partitions))
    for partition in range(partitions):
        out += pack("<i", partition)
        for rack in racks[partition] if racks else ():
            out += pack("<i", len(rack.encode("utf-16-le")) // 2) + _text(rack)
    return xxh3_64_intdigest(bytes(out))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
