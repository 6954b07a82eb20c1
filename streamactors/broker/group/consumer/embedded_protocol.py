"""What members of the classic protocol embed in their requests: ConsumerProtocolSubscription and ConsumerProtocolAssignment.

Owner: the migration between the two protocols of consumer groups. Pure. Versions 0 to 3."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from streamactors.broker.protocol.record_schema import (
    BYTES,
    INT16,
    INT32,
    NULLABLE_TEXT,
    TEXT,
    CorruptRecord,
    Field,
    Form,
    WireType,
    array,
    structure,
)

_HIGHEST: Final = 3


def _user_data() -> WireType[bytes]:
    def read(data: bytes, at: int, form: Form) -> tuple[bytes, int]:
        length, after = INT32.read(data, at, form)
        return (b"", after) if length < 0 else BYTES.read(data, at, form)

    return WireType(BYTES.write, read)


class TopicPartitions(NamedTuple):
    """Partitions of a topic."""

    topic: Annotated[str, TEXT]
    partitions: Annotated[Sequence[int], array(INT32)]


class Subscription(NamedTuple):
    """What a member wants, and what it has."""

    topics: Annotated[Sequence[str], array(TEXT)]
    user_data: Annotated[bytes, _user_data()] = b""
    owned: Annotated[Sequence[TopicPartitions], Field(array(structure(TopicPartitions)), since=1)] = ()
    generation: Annotated[int, Field(INT32, since=2)] = -1
    rack_id: Annotated[str | None, Field(NULLABLE_TEXT, since=3)] = None


class Assignment(NamedTuple):
    """What a member gets."""

    assigned: Annotated[Sequence[TopicPartitions], array(structure(TopicPartitions))]
    user_data: Annotated[bytes, _user_data()] = b""


_SUBSCRIPTION: Final = structure(Subscription)
_ASSIGNMENT: Final = structure(Assignment)


def decode_subscription(data: bytes) -> Subscription:
    """Return a subscription. Raises CorruptRecord."""
    return _SUBSCRIPTION.read(data, 2, _form(data))[0]


def decode_assignment(data: bytes) -> Assignment:
    """Return an assignment. Raises CorruptRecord."""
    return _ASSIGNMENT.read(data, 2, _form(data))[0]


def encode_assignment(assigned: Mapping[str, Sequence[int]], subscription: bytes) -> bytes:
    """Return an assignment in the version of the member's subscription."""
    form = _form(subscription)
    out = bytearray()
    INT16.write(out, form.version, form)
    array(structure(TopicPartitions)).write(
        out, [TopicPartitions(topic, partitions) for topic, partitions in assigned.items()], form
    )
    INT32.write(out, -1, form)  # no user data
    return bytes(out)


def _form(data: bytes) -> Form:
    try:
        (version,) = struct.unpack_from(">h", data)
    except struct.error:
        raise CorruptRecord("an embedded consumer protocol without a version") from None
    if version < 0:
        raise CorruptRecord(f"version {version} of an embedded consumer protocol")
    return Form(min(version, _HIGHEST), False)
