"""Requests to a group coordinator: a group's whole life, and everything one can ask of it wrongly."""

from __future__ import annotations

from tests.differential.coordinator_steps import (
    AnswerTo,
    Script,
    Step,
)
from tests.differential.group_requests import (
    FETCH,
    TOO_LONG,
    TOPIC,
    awaited,
    beat,
    commit,
    delete,
    delete_offsets,
    describe,
    fetch,
    find,
    id_of,
    in_state,
    join,
    leave,
    listed,
    sync,
    topic_of,
)


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
