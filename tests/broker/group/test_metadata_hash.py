"""The metadata hash of a group: XXH3-64 in the layout that Apache Kafka 4.4.0 was measured to use."""

from __future__ import annotations

import uuid

from streamactors.broker.group.metadata_hash import metadata_hash, topic_hash
from streamactors.broker.metadata.image import MetadataImage


def test_no_topic_is_hash_0() -> None:
    assert metadata_hash(MetadataImage(), ["missing"]) == 0


def test_every_part_of_a_topic_counts() -> None:
    topic = uuid.UUID(int=5)
    hashes = {
        topic_hash(topic, "t", 2),
        topic_hash(uuid.UUID(int=6), "t", 2),
        topic_hash(topic, "u", 2),
        topic_hash(topic, "t", 3),
        topic_hash(topic, "t", 2, (("a",), ())),
        topic_hash(topic, "t", 2, (("b",), ())),
        topic_hash(topic, "t", 2, ((), ("a",))),
    }
    assert len(hashes) == 7
