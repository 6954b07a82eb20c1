"""The requests of the group scripts: a member, its offsets, and what an administrator asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.coordinator_steps import (
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    Body,
    Seen,
    Step,
    Until,
)

TOPIC = "g-topic"
PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19
COMMIT, FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
DESCRIBE, LIST, DELETE_GROUPS, DELETE_OFFSETS = 15, 16, 42, 47
MEMBER_ID_REQUIRED = 79
TOO_LONG = "g" * 40_000

# version 0 of a consumer's subscription: the topic, no user data
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01" + len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + b"\x00\x00\x00\x00"
_BUSY = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)


def topic_of(name: str, partitions: int) -> Step:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
    return Step(f"create {name}", CREATE_TOPICS, 5, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})


def find(label: str, version: int, kind: int, *keys: str) -> Step:
    body = {"key": keys[0] if keys else "", "coordinator_keys": keys, "key_type": kind}
    return Step(f"find {label} v{version}", FIND_COORDINATOR, version, body, again_while=(NOT_AVAILABLE,))


def awaited(group: str) -> Step:
    """Ask until the group's coordinator serves."""
    return Step(f"first beat of {group}", HEARTBEAT, 4, _beat(group, "nobody", 1), again_while=(*_BUSY, 0))


def _with_id(body: dict[str, Any], member: str | Callable[[Seen], str]) -> Body:
    return (
        {**body, "member_id": member} if isinstance(member, str) else lambda seen: {**body, "member_id": member(seen)}
    )


def id_of(step: str) -> Callable[[Seen], str]:
    """Return the member id in the answer to a JoinGroup."""
    return lambda seen: str(seen[step].member_id)


Member = str | Callable[[Seen], str]


def join(
    label: str, group: str, member: Member = "", *, version: int = 9, on: str = "a", parked: bool = False, **fields: Any
) -> Step:
    body = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        "reason": None,
        **fields,
    }
    return Step(f"join {label}", JOIN, version, _with_id(body, member), on, parked)


def sync(
    label: str,
    group: str,
    member: Member,
    generation: int,
    *assigned: Member,
    version: int = 5,
    on: str = "a",
    parked: bool = False,
    **fields: Any,
) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        ids = [each if isinstance(each, str) else each(seen) for each in assigned]
        return {
            "group_id": group,
            "generation_id": generation,
            "member_id": member if isinstance(member, str) else member(seen),
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": each, "assignment": b"part %d" % n} for n, each in enumerate(ids)],
            **fields,
        }

    return Step(f"sync {label}", SYNC, version, body, on, parked)


def _beat(group: str, member: str, generation: int, instance: str | None = None) -> dict[str, Any]:
    return {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}


def beat(
    label: str, group: str, member: Member, generation: int, *, instance: str | None = None, version: int = 4
) -> Step:
    body = _beat(group, "", generation, instance)
    return Step(f"beat {label}", HEARTBEAT, version, _with_id(body, member))


def leave(label: str, group: str, *members: tuple[Member, str | None], version: int = 5) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        named = [
            {"member_id": m if isinstance(m, str) else m(seen), "group_instance_id": instance, "reason": None}
            for m, instance in members
        ]
        return {"group_id": group, "members": named, "member_id": named[0]["member_id"] if named else ""}

    return Step(f"leave {label}", LEAVE, version, body)


def commit(
    label: str,
    group: str,
    offset: int = 7,
    member: Member = "",
    generation: int = -1,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    metadata: str | None = "why",
    version: int = 9,
    leader_epoch: int = -1,
    **fields: Any,
) -> Step:
    entry = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "committed_metadata": metadata,
    }
    topics = [{"name": topic, "partitions": [entry]}]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": topics,
        **fields,
    }
    return Step(f"commit {label}", COMMIT, version, _with_id(body, member))


def fetch(label: str, group: str, *partitions: int, topic: str = TOPIC, version: int = 9, **fields: Any) -> Step:
    asked = {
        "group_id": group,
        "topics": fields.pop("topics", [{"name": topic, "partition_indexes": partitions or (0,)}]),
    }
    one = {**asked, "member_id": None, "member_epoch": -1, **fields}
    return Step(f"fetch {label}", FETCH, version, {**asked, "groups": [one], "require_stable": False})


def describe(label: str, *groups: str, version: int = 5) -> Step:
    return Step(
        f"describe {label}", DESCRIBE, version, {"groups": groups, "include_authorized_operations": version >= 3}
    )


def listed(label: str, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5) -> Step:
    return Step(f"list {label}", LIST, version, {"states_filter": states, "types_filter": types})


def delete(label: str, *groups: str, version: int = 2) -> Step:
    return Step(f"delete {label}", DELETE_GROUPS, version, {"groups_names": groups})


def delete_offsets(label: str, group: str, topic: str = TOPIC, *partitions: int) -> Step:
    named = [{"name": topic, "partitions": [{"partition_index": p} for p in partitions or (0,)]}]
    return Step(f"delete offsets {label}", DELETE_OFFSETS, 0, {"group_id": group, "topics": named})


def in_state(group: str, state: str, members: int) -> Until:
    def wanted(answer: Any) -> bool:
        (found,) = answer.groups
        return bool(found.group_state == state and len(found.members) == members)

    body = {"groups": [group], "include_authorized_operations": False}
    return Until(f"{group} is {state} with {members}", DESCRIBE, 4, body, wanted)
