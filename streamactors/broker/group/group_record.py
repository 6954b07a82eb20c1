"""A classic group in `__consumer_offsets`: Kafka's GroupMetadataKey and GroupMetadataValue.

Owner: the group coordinator. Key: version 2, group. Value versions 0-4 are read, 3 is written. The record is what
a new coordinator starts from: generation, chosen assignor, leader, and each member with its assignment. A null
value is a tombstone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamactors.broker.coordinator.record_codec import CorruptRecord, Reader, Writer
from streamactors.broker.group.classic_group import Group, GroupRules, GroupState, Member

KEY_VERSION: Final = 2
VALUE_VERSION: Final = 3


def encode_group_key(group_id: str) -> bytes:
    """Return the record key of a group."""
    return Writer(KEY_VERSION).string(group_id).finish()


def decode_group_key(data: bytes) -> str:
    """Return the group's id. Raises CorruptRecord."""
    return Reader(data, at=2).string()


def encode_group_value(group: Group, assignments: Mapping[str, bytes]) -> bytes:
    """Return the record value of a group whose members are assigned so."""
    out = Writer(VALUE_VERSION).string(group.protocol_type or "").int32(group.generation).string(group.protocol)
    out.string(group.leader).int64(group.state_since_ms).count(len(group.members))
    for member in group.members.values():
        out.string(member.member_id).string(member.instance_id).string(member.client_id).string(member.client_host)
        out.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        out.byte_string(member.metadata_for(group.protocol)).byte_string(assignments.get(member.member_id, b""))
    return out.finish()


def decode_group_value(group_id: str, data: bytes, rules: GroupRules) -> Group:
    """Return the group a record holds: Stable with its members, or Empty. Raises CorruptRecord."""
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise CorruptRecord(f"version {version} of group {group_id!r} is unknown; versions 0 to 4 can be read")
    reader.flexible = version >= 4
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_since_ms = reader.int64() if version >= 2 else -1

    def member() -> Member:
        member_id = reader.string()
        instance_id = reader.nullable_string() if version >= 3 else None
        client_id, client_host = reader.string(), reader.string()
        rebalance_timeout_ms = reader.int32() if version >= 1 else -1
        session_timeout_ms = reader.int32()
        subscription, assignment = reader.byte_string(), reader.byte_string()
        reader.tagged_fields()
        return Member(
            member_id,
            instance_id,
            client_id,
            client_host,
            session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            session_timeout_ms,
            ((protocol or "", subscription),),
            assignment,
        )

    members = {member.member_id: member for member in reader.array(member)}
    return Group(
        group_id,
        rules,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        state_since_ms=state_since_ms,
        generation=generation,
        protocol_type=protocol_type or None,
        protocol=protocol,
        leader=leader if leader in members else next(iter(members), None),
        members=members,
        stored=True,
    )
