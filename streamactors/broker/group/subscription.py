"""The topics a consumer-protocol member subscribes to, read out of the bytes it joins with.

Owner: the group coordinator, which otherwise never looks into them; it needs the topics so that offsets of a
subscribed topic are neither deleted nor expired. Every version of ConsumerProtocolSubscription begins with version
(int16) and the topics."""

from __future__ import annotations

from functools import lru_cache

from streamactors.broker.coordinator.record_codec import CorruptRecord, Reader
from streamactors.broker.group.classic_group import Group


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return what the members of a consumer group subscribe to together, or None when that cannot be known."""
    if not group.is_consumer_group:
        return None
    if not group.members:
        return frozenset()
    if group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        subscribed = _topics(member.metadata_for(group.protocol))
        if subscribed is None:
            return None
        topics |= subscribed
    return frozenset(topics)


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a topic's offsets are in use; where the subscription cannot be read, a consumer group uses them all."""
    topics = subscribed_topics(group)
    return group.is_consumer_group if topics is None else topic in topics


@lru_cache(maxsize=4_096)
def _topics(metadata: bytes) -> frozenset[str] | None:
    reader = Reader(metadata)
    try:
        reader.int16()
        return frozenset(reader.array(reader.string))
    except CorruptRecord:
        return None
