"""What members of a classic group embed in their requests.

Owner: the classic member. Pure; the broker's definitions of ConsumerProtocolSubscription and ConsumerProtocolAssignment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streamactors.broker.group.consumer.embedded_protocol import (
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
)
from streamactors.broker.protocol.record_schema import INT16, Form, structure

_VERSION: Final = 2
"""The first version with the generation of the owned partitions."""
_FORM: Final = Form(_VERSION, False)
_SUBSCRIPTION: Final = structure(Subscription)
Key = tuple[str, int]


def by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(keys):
        found.setdefault(topic, []).append(partition)
    return found


def subscription(topics: Sequence[str], owned: Iterable[Key], generation: int) -> bytes:
    """Return what a member wants and has, as bytes."""
    out = bytearray()
    INT16.write(out, _VERSION, _FORM)
    has = [TopicPartitions(topic, partitions) for topic, partitions in by_topic(owned).items()]
    _SUBSCRIPTION.write(out, Subscription(topics, b"", has, generation), _FORM)
    return bytes(out)


def assignment(keys: Iterable[Key], of: bytes) -> bytes:
    """Return what a member gets, in the version of its subscription `of`."""
    return encode_assignment(by_topic(keys), of)


def assigned(data: bytes) -> list[Key]:
    """Return the partitions of an assignment. Empty bytes have none."""
    if not data:
        return []
    return [(each.topic, partition) for each in decode_assignment(data).assigned for partition in each.partitions]
