"""Requests to a group coordinator: a group's whole life, and everything one can ask of it wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.coordinator_steps import (
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    AnswerTo,
    Body,
    Script,
    Seen,
    Step,
    Until,
)

PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19
COMMIT, FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
DESCRIBE, LIST, DELETE_GROUPS, DELETE_OFFSETS = 15, 16, 42, 47

TOPIC = "g-topic"
MEMBER_ID_REQUIRED = 79
TOO_LONG = "g" * 40_000
# version 0 of a consumer's subscription: the topic, no user data
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01" + len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + b"\x00\x00\x00\x00"
_BUSY = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)


# -- requests ----------------------------------------------------------------------------------------------------------


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


# -- scenes ------------------------------------------------------------------------------------------------------------


def nobody_there() -> Script:
    """Everything one may ask about groups that do not exist, and names that cannot be."""
    return [
        topic_of(TOPIC, 3),
        topic_of("other", 1),
        *(find("a group", version, 0, "g") for version in range(7)),
        *(find("a transactional id", version, 1, "x") for version in range(1, 7)),
        find("several", 4, 0, "g", "h", "g"),
        find("none", 4, 0),
        find("no name", 3, 0, ""),
        find("no name", 4, 1, ""),
        find("an unknown kind", 3, 9, "g"),
        find("an unknown kind", 5, 9, "g"),
        awaited("g"),
        beat("of a stranger", "none", "me", 0),
        beat("of a stranger as the group's start", "none", "", -1),
        beat("of no group", "", "me", 0),
        beat("of a name too long", TOO_LONG[:300], "me", 0),
        sync("of a stranger", "none", "me", 1),
        sync("of no group", "", "me", 1),
        sync("without a protocol", "none", "me", 1, protocol_type=None, protocol_name=None),
        sync("without a protocol v4", "none", "me", 1, version=4),
        leave("of a stranger", "none", ("me", None)),
        leave("of a stranger v2", "none", ("me", None), version=2),
        leave("of an instance nobody knows", "none", ("", "i")),
        leave("of nobody", "none"),
        leave("of no group", "", ("me", None)),
        join("as somebody unknown", "none", "me"),
        join("no group", ""),
        join("with an empty instance id", "odd-0", group_instance_id=""),
        join("with an impossible instance id", "odd-1", group_instance_id="a b"),
        join("with a dotted instance id", "odd-2", group_instance_id=".."),
        join("with a long instance id", "odd-3", group_instance_id="i" * 250),
        describe("a group that is not there", "none"),
        describe("a group that is not there v6", "none", version=6),
        describe("no name", ""),
        describe("nothing"),
        *(fetch(f"of an unknown group v{version}", "none", 0, 1, version=version) for version in range(1, 10)),
        *(fetch(f"of no group v{version}", "", 0, version=version) for version in (1, 5, 8)),
        fetch("of an unknown topic", "none", 0, topic="nope"),
        fetch("of an unknown partition", "none", 99),
        fetch("of all", "none", topics=None),
        fetch("of all v2", "none", topics=None, version=2),
        fetch("as a member of an unknown group", "none", member_id="me", member_epoch=3),
        delete("what is not there", "none"),
        delete("no name", ""),
        delete("one twice", "none", "none"),
        delete("nothing"),
        delete_offsets("of an unknown group", "none"),
        delete_offsets("of no group", ""),
        listed("when there is none"),
        commit("with a generation nobody made", "none", generation=1, member="me"),
        commit("with a generation nobody made v8", "none", generation=1, member="me", version=8),
        commit("to no group", ""),
        commit("with an instance nobody knows", "none", group_instance_id="i", member="me", generation=-1),
        commit("with a member nobody knows", "none", member="me"),
    ]


def offsets() -> Script:
    """A group that only commits."""
    return [
        *(commit(f"by an administrator v{version}", "adm", version, version=version) for version in range(2, 10)),
        commit("with a leader epoch", "adm", 7, leader_epoch=5),
        commit("with no metadata", "adm", 8, metadata=None, partition=1),
        commit("with metadata of 4096", "adm", 9, metadata="m" * 4_096, partition=1),
        commit("with metadata of 4097", "adm", 10, metadata="m" * 4_097, partition=1),
        commit("with metadata of 2049 letters, 4098 bytes", "adm", 10, metadata="ä" * 2_049, partition=1),
        commit("of offset 0", "adm", 0, partition=2),
        commit("of offset -1", "adm", -1, partition=2),
        commit("of offset -5", "adm", -5, partition=2),
        commit("of offset far away", "adm", 2**62, partition=2),
        commit("for an unknown topic", "adm", topic="nope"),
        commit("for no topic", "adm", topic=""),
        commit("for an unknown partition", "adm", partition=3),
        commit("for a negative partition", "adm", partition=-1),
        commit("of nothing", "adm", topics=()),
        commit("with a retention", "adm", 3, version=4, retention_time_ms=1_000_000),
        commit("with a retention below -1", "adm", 3, version=4, retention_time_ms=-2),
        commit("with a generation", "adm", generation=0),
        commit("with a generation v8", "adm", generation=3, version=8),
        commit("with a member id", "adm", 5, member="me"),
        commit("with an instance id", "adm", 5, group_instance_id="i"),
        commit("with generation -2", "adm", 5, generation=-2),
        *(fetch(f"what was committed v{version}", "adm", 0, 1, 2, 9, version=version) for version in range(1, 10)),
        fetch("all that was committed", "adm", topics=None),
        fetch("as a member", "adm", member_id="me", member_epoch=3),
        fetch("as an epoch without a member", "adm", member_epoch=3),
        fetch("as a member without an epoch", "adm", member_id="me"),
        Step("fetch several groups", FETCH, 8, {"groups": [{"group_id": g, "topics": None} for g in ("adm", "none", "")], "require_stable": True}),
        Step("fetch no groups", FETCH, 8, {"groups": [], "require_stable": True}),
        Step("fetch one group twice", FETCH, 8, {"groups": [{"group_id": g, "topics": [{"name": TOPIC, "partition_indexes": [0]}]} for g in ("adm", "adm")], "require_stable": False}),
        describe("a group without members", "adm"),
        describe("several", "adm", "none", "adm", version=5),
        *(describe(f"in version {version}", "adm", version=version) for version in range(6)),
        listed("what committed"),
        *(listed(f"in version {version}", version=version) for version in range(5)),
        listed("what is empty", ("Empty",)),
        listed("what is empty, in small letters", ("empty",)),
        listed("what is stable or dead", ("Stable", "Dead")),
        listed("an unknown state", ("Sleeping",)),
        listed("the classic ones", (), ("classic",)),
        listed("the classic ones in capitals", (), ("CLASSIC",)),
        listed("the consumer ones", (), ("consumer",)),
        listed("an unknown type", (), ("strange",)),
        delete_offsets("that are there and not", "adm", TOPIC, 0, 1, 9),
        delete_offsets("of an unknown topic", "adm", "nope"),
        delete_offsets("that are gone", "adm", TOPIC, 0),
        fetch("what is left", "adm", topics=None),
        delete("a group of offsets", "adm", "none"),
        fetch("what was deleted", "adm", 0, 1, 2),
        describe("what was deleted", "adm"),
    ]  # fmt: skip


def handed_out_ids() -> Script:
    """A newcomer has been given its id, and does everything with it but join."""
    me, second = id_of("join without an id"), id_of("join without an id, again")
    return [
        join("without an id", "ids"),
        describe("who has only an id", "ids"),
        beat("with an id that has not joined", "ids", me, 0),
        sync("with an id that has not joined", "ids", me, 0),
        commit("with an id that has not joined", "ids", 1, me, 0),
        join("under an instance id and somebody's id", "ids", me, group_instance_id="i"),
        leave("with an id that has not joined", "ids", (me, None)),
        join("with an id that has left", "ids", me),
        join("without an id, again", "ids"),
        join("with another type than the first time", "ids", second, protocol_type="other"),
        leave("before it synced", "ids", (second, None)),
        delete("what only had ids", "ids"),
    ]


def one_member() -> Script:
    """A dynamic member comes, works, and goes; everybody asks it wrongly."""
    me = id_of("join with its id")
    return [
        join("anew", "one"),
        join("with its id", "one", id_of("join anew")),
        join("again before it syncs", "one", me),
        beat("before it syncs", "one", me, 1),
        commit("before it syncs", "one", 1, me, 1),
        commit("before it syncs, of nobody", "one", 1),
        sync("for another generation", "one", me, 2),
        sync("for the generation before", "one", me, 0),
        sync("by a stranger", "one", "stranger", 1),
        sync("with another protocol type", "one", me, 1, protocol_type="other"),
        sync("with another protocol", "one", me, 1, protocol_name="roundrobin"),
        sync("as an instance nobody knows", "one", me, 1, group_instance_id="i"),
        sync("and assigns", "one", me, 1, me, "stranger"),
        sync("again", "one", me, 1),
        sync("again with another assignment", "one", me, 1, "stranger", me),
        describe("who has synced", "one"),
        describe("who has synced v2", "one", version=2),
        *(beat(f"in version {version}", "one", me, 1, version=version) for version in range(5)),
        beat("of another generation", "one", me, 2),
        beat("of no generation", "one", me, -1),
        beat("of a stranger in a group", "one", "stranger", 1),
        beat("of no member in a group", "one", "", 1),
        beat("of an instance nobody knows", "one", me, 1, instance="i"),
        *(commit(f"by the member v{version}", "one", version, me, 1, version=version) for version in range(2, 10)),
        commit("by the member for another generation", "one", 1, me, 2),
        commit("by the member for no generation", "one", 1, me, -1),
        commit("by a stranger", "one", 1, "stranger", 1),
        commit("by nobody for a generation", "one", 1, "", 1),
        commit("by nobody", "one", 1),
        commit("by an instance nobody knows", "one", 1, me, 1, group_instance_id="i"),
        fetch("by the member", "one", 0, member_id="x", member_epoch=1),
        join("with an inconsistent type", "one", protocol_type="other"),
        join("with an inconsistent protocol", "one", protocols=[{"name": "sticky", "metadata": b""}]),
        join("of a stranger with an id", "one", "stranger"),
        delete("a group in use", "one"),
        delete_offsets("of a topic in use", "one"),
        delete_offsets("of a topic not in use", "one", "other"),
        listed("what is stable", ("Stable",)),
        join("again, as the leader", "one", me),
        sync("of the generation before", "one", me, 1),
        sync("of the second generation", "one", me, 2, me),
        join("with another subscription", "one", me, protocols=[{"name": "range", "metadata": b"\x00\x00"}]),
        sync("of the third generation", "one", me, 3, me),
        leave("by a stranger", "one", ("stranger", None)),
        leave("by an instance nobody knows", "one", (me, "i")),
        leave("twice", "one", (me, None), (me, None)),
        describe("who has left", "one"),
        beat("after it left", "one", me, 3),
        commit("after it left", "one", 1, me, 3),
        sync("after it left", "one", me, 3),
        join("after it left", "one", me),
        fetch("after it left", "one"),
        listed("what was left"),
        delete_offsets("that nobody uses any more", "one"),
        delete("what was left", "one"),
    ]


def two_members() -> Script:
    """The second member waits for the first, and the first for the second."""
    a, b = id_of("join two as a"), id_of("join two with an id as b")
    names = {"on": "b", "version": 5}
    return [
        join("two as a", "two", version=3),
        sync("two as a", "two", a, 1, a),
        join("two with an id as b", "two", **names),
        join("two as b", "two", b, parked=True, **names),
        in_state("two", "PreparingRebalance", 2),
        beat("while b waits", "two", a, 1),
        beat("while b waits, by b", "two", b, 1),
        sync("while b waits", "two", a, 1),
        commit("while b waits", "two", 3, a, 1),
        describe("two while they join", "two"),
        join("two again as a", "two", a),
        AnswerTo("join two as b", "b"),
        beat("before two sync", "two", a, 2),
        commit("before two sync", "two", 4, a, 2),
        sync("two as b first", "two", b, 2, on="b", parked=True),
        sync("two again as a", "two", a, 2, a, b),
        AnswerTo("sync two as b first", "b"),
        join("again as a follower", "two", b, version=5),
        beat("of the follower", "two", b, 2),
        commit("of the follower", "two", 5, b, 2),
        describe("two", "two"),
        leave("the leader", "two", (a, None), version=3),
        beat("of the one that is left", "two", b, 2),
        join("of the one that is left", "two", b, version=5),
        leave("the last before it synced", "two", (b, None)),
        describe("two that have left", "two"),
        delete("two that have left", "two"),
    ]  # fmt: skip


def static_members() -> Script:
    """Members with a name of their own."""
    first, second = id_of("join static"), id_of("join static again")
    static = {"group_instance_id": "i-1"}
    return [
        join("static", "sta", **static),
        sync("static", "sta", first, 1, first, **static),
        beat("static", "sta", first, 1, instance="i-1"),
        beat("static without its name", "sta", first, 1),
        beat("static under another name", "sta", first, 1, instance="i-2"),
        join("static again", "sta", **static),
        describe("static", "sta"),
        sync("static again", "sta", second, 1, second, **static),
        beat("the fenced one", "sta", first, 1, instance="i-1"),
        beat("the fenced one without its name", "sta", first, 1),
        sync("the fenced one", "sta", first, 1, **static),
        commit("the fenced one", "sta", 1, first, 1, **static),
        commit("the one that fenced", "sta", 1, second, 1, **static),
        join("the fenced one", "sta", first, **static),
        leave("the fenced one", "sta", (first, "i-1")),
        join("static v5 again", "sta", version=5, **static),
        sync("static v5 again", "sta", id_of("join static v5 again"), 1, id_of("join static v5 again"), **static),
        leave("by its name and somebody unknown", "sta", ("", "i-1"), ("", "i-2"), ("nobody", None)),
        describe("static that was removed", "sta"),
        delete("static that was removed", "sta"),
    ]


def refused() -> Script:
    """Newcomers that no group can take."""
    return [
        join("without a protocol type", "ref-1", protocol_type=""),
        join("without protocols", "ref-2", protocols=()),
        *(
            join(f"with a session of {session}", "ref-3", session_timeout_ms=session)
            for session in (-1, 0, 5_999, 1_800_001)
        ),
        describe("whom nobody tried in earnest to join", "ref-3"),
    ]


SCRIPT: Script = [
    *nobody_there(),
    *offsets(),
    *handed_out_ids(),
    *one_member(),
    *two_members(),
    *static_members(),
    *refused(),
]
