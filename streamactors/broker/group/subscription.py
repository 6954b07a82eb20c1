"""The topics that a member of a consumer group subscribes to, decoded from its subscription.

Owner: the group coordinator. Offsets of a subscribed topic must not be deleted and do not expire. Every version of
ConsumerProtocolSubscription begins with the version (int16) and the topics."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from streamactors.broker.group.classic.classic_group import Group
from streamactors.broker.protocol.record_schema import TEXT, CorruptRecord, Form, array

_VERSION_BYTES: Final = 2
_TOPICS: Final = array(TEXT)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return the topics that the members of a consumer group subscribe to, None if they are unknown."""
    if not group.is_consumer_group:
        return None
    if not group.members:
        return frozenset()
    if group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        subscribed = topics_in(member.metadata_for(group.protocol))
        if subscribed is None:
            return None
        topics |= subscribed
    return frozenset(topics)


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a topic's offsets are in use: all of a consumer group's are, if its subscription cannot be decoded."""
    topics = subscribed_topics(group)
    return group.is_consumer_group if topics is None else topic in topics


@lru_cache(maxsize=4_096)
def topics_in(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription, None if it cannot be decoded."""
    try:
        topics, _ = _TOPICS.read(metadata, _VERSION_BYTES, Form(0, flexible=False))
        return frozenset(topics or ())
    except CorruptRecord:
        return None
