"""A classic group in `__consumer_offsets`: Kafka's GroupMetadataKey and GroupMetadataValue.

Owner: the group coordinator. Key: version 2, group. Value versions 0-4 are read, 3 is written. A new coordinator starts from the
record's generation, assignor, leader, and members with their assignments. A null value is a tombstone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState, Member
from streamactors.broker.protocol.record_schema import (
    BYTES,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    Field,
    Versioned,
    array,
    structure,
)

KEY_VERSION: Final = 2
VALUE_VERSION: Final = 3


class _Key(NamedTuple):
    group_id: Annotated[str, TEXT]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    member_id: Annotated[str, TEXT]
    instance_id: Annotated[str | None, Field(NULLABLE_TEXT, since=3)] = None
    client_id: Annotated[str, TEXT]
    client_host: Annotated[str, TEXT]
    rebalance_timeout_ms: Annotated[int, Field(INT32, since=1)] = -1
    session_timeout_ms: Annotated[int, INT32]
    subscription: Annotated[bytes, BYTES]
    assignment: Annotated[bytes, BYTES]


class _Value(NamedTuple):
    protocol_type: Annotated[str, TEXT]
    generation: Annotated[int, INT32]
    protocol: Annotated[str | None, NULLABLE_TEXT]
    leader: Annotated[str | None, NULLABLE_TEXT]
    state_since_ms: Annotated[int, Field(INT64, since=2)] = -1
    members: Annotated[Sequence[_Member], array(structure(_Member))] = ()


_KEY: Final = Versioned("a group's key", structure(_Key), highest=KEY_VERSION)
_VALUE: Final = Versioned("group", structure(_Value), highest=4, flexible_since=4)


def encode_group_key(group_id: str) -> bytes:
    """Return the record key of a group."""
    return _KEY.encode(_Key(group_id), KEY_VERSION)


def decode_group_key(data: bytes) -> str:
    """Return the group's id. Raises CorruptRecord."""
    return _KEY.decode(data).group_id


def encode_group_value(group: Group, assignments: Mapping[str, bytes]) -> bytes:
    """Return the record value of a group with its members' assignments."""
    members = [
        _Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata_for(group.protocol),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = _Value(
        group.protocol_type or "", group.generation, group.protocol, group.leader, group.state_since_ms, members
    )
    return _VALUE.encode(value, VALUE_VERSION)


def decode_group_value(group_id: str, data: bytes, rules: GroupRules) -> Group:
    """Return the group of a record: Stable with its members, or Empty. Raises CorruptRecord."""
    value = _VALUE.decode(data, group_id)
    members = {
        stored.member_id: Member(
            stored.member_id,
            stored.instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout_ms if stored.rebalance_timeout_ms == -1 else stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            ((value.protocol or "", stored.subscription),),
            stored.assignment,
        )
        for stored in value.members
    }
    return Group(
        group_id,
        rules,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        state_since_ms=value.state_since_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader if value.leader in members else next(iter(members), None),
        members=members,
        stored=True,
    )
