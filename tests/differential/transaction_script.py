"""Requests to a transaction coordinator: transactions that commit, abort and are fenced, and everything one can ask of it wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.differential.coordinator_steps import LOADING, NOT_AVAILABLE, NOT_COORDINATOR, Script, Seen, Step, Until
from tests.differential.group_requests import commit, fetch, find, topic_of

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, MARKERS, TXN_COMMIT, PRODUCERS, DESCRIBE, LIST = (
    22,
    24,
    25,
    26,
    27,
    28,
    61,
    65,
    66,
)
TOPIC, NOW_MS = "x-topic", 1_700_000_000_000
CONCURRENT = 51
_BUSY = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)

Pid = tuple[int, int] | Callable[[Seen], tuple[int, int]]
NOBODY: Pid = (-1, -1)


def of(step: str, *, epoch: int = 0, producer_id: int = 0) -> Callable[[Seen], tuple[int, int]]:
    """Return producer id and epoch in the answer to an InitProducerId, each moved by so much."""
    return lambda seen: (seen[step].producer_id + producer_id, seen[step].producer_epoch + epoch)


def _producer(pid: Pid, seen: Seen) -> dict[str, int]:
    producer_id, epoch = pid(seen) if callable(pid) else pid
    return {"producer_id": producer_id, "producer_epoch": epoch}


def init(
    label: str, name: str | None, pid: Pid = NOBODY, *, timeout_ms: int = 60_000, version: int = 4, busy: bool = False
) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        return {"transactional_id": name, "transaction_timeout_ms": timeout_ms, **_producer(pid, seen)}

    return Step(f"init {label}", INIT, version, body, again_while=_BUSY if busy else (*_BUSY, CONCURRENT))


def add(label: str, name: str, pid: Pid, *partitions: int, topic: str = TOPIC, version: int = 3) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        producer = _producer(pid, seen)
        return {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer["producer_id"],
            "v3_and_below_producer_epoch": producer["producer_epoch"],
            "v3_and_below_topics": [{"name": topic, "partitions": partitions or (0,)}],
        }

    return Step(f"add {label}", ADD_PARTITIONS, version, body, again_while=(CONCURRENT,))


def verify(label: str, name: str, pid: Pid, *partitions: int, version: int = 4, only: bool = True) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        topics = [{"name": TOPIC, "partitions": partitions or (0,)}]
        return {
            "transactions": [{"transactional_id": name, **_producer(pid, seen), "verify_only": only, "topics": topics}]
        }

    return Step(f"verify {label}", ADD_PARTITIONS, version, body, again_while=(CONCURRENT,))


def add_offsets(label: str, name: str, pid: Pid, group: str, *, version: int = 3) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        return {"transactional_id": name, "group_id": group, **_producer(pid, seen)}

    return Step(f"add offsets {label}", ADD_OFFSETS, version, body, again_while=(CONCURRENT,))


def end(label: str, name: str, pid: Pid, *, commits: bool, version: int = 3) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        return {"transactional_id": name, "committed": commits, **_producer(pid, seen)}

    return Step(f"end {label}", END, version, body, again_while=(CONCURRENT,))


def txn_commit(
    label: str,
    name: str,
    pid: Pid,
    group: str,
    *,
    partition: int = 0,
    topic: str = TOPIC,
    version: int = 3,
    **fields: Any,
) -> Step:
    entry = {
        "partition_index": partition,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": fields.pop("metadata", "why"),
    }

    def body(seen: Seen) -> dict[str, Any]:
        return {
            "transactional_id": name,
            "group_id": group,
            **_producer(pid, seen),
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [entry]}],
            **fields,
        }

    return Step(f"commit in {label}", TXN_COMMIT, version, body)


def produce(
    label: str,
    name: str | None,
    pid: Pid,
    sequence: int = 0,
    *,
    partition: int = 0,
    transactional: bool = True,
    version: int = 9,
) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        records = build_batch(
            [NewRecord(b"k", b"v", NOW_MS)], base_sequence=sequence, transactional=transactional, **_producer(pid, seen)
        )
        data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": bytes(records)}]}]
        return {"transactional_id": name, "acks": -1, "timeout_ms": 5_000, "topic_data": data}

    return Step(f"produce {label}", PRODUCE, version, body)


def mark(
    label: str, pid: Pid, coordinator_epoch: int, *, topic: str = TOPIC, partition: int = 0, commits: bool = False
) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        where = [{"name": topic, "partition_indexes": [partition]}]
        marker = {"transaction_result": commits, "topics": where, "coordinator_epoch": coordinator_epoch}
        return {"markers": [{**marker, **_producer(pid, seen)}]}

    return Step(f"mark {label}", MARKERS, 1, body)


def describe(label: str, *names: str) -> Step:
    return Step(f"describe {label}", DESCRIBE, 0, {"transactional_ids": names})


def listed(
    label: str, states: Sequence[str] = (), producers: Sequence[int] = (), *, version: int = 1, longer_ms: int = -1
) -> Step:
    body = {"state_filters": states, "producer_id_filters": producers, "duration_filter": longer_ms}
    return Step(f"list {label}", LIST, version, body)


def is_over(name: str) -> Until:
    def wanted(answer: Any) -> bool:
        return str(answer.transaction_states[0].transaction_state).startswith("Complete")

    return Until(f"{name} is over", DESCRIBE, 0, {"transactional_ids": [name]}, wanted)


def read(label: str, isolation: int, partition: int = 0) -> Step:
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1,
    }
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1,
        "isolation_level": isolation,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [asked]}],
        "forgotten_topics_data": (),
        "rack_id": "",
    }
    return Step(f"read {label}", FETCH, 12, body)


def ends(label: str, isolation: int, partition: int = 0) -> Step:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    body = {"replica_id": -1, "isolation_level": isolation, "topics": [{"name": TOPIC, "partitions": [asked]}]}
    return Step(f"ends {label}", LIST_OFFSETS, 7, body)


# -- scenes ------------------------------------------------------------------------------------------------------------


def strangers() -> Script:
    """Unknown producers, and invalid names."""
    return [
        topic_of(TOPIC, 3),
        find("the groups' coordinator", 3, 0, "x-group"),
        find("the transactions' coordinator", 3, 1, "x"),
        *(init(f"without a transactional id v{version}", None, version=version) for version in range(5)),
        init("with an empty id", ""),
        init("with an id too long", "x" * 40_000),
        *(init(f"with a time-out of {t}", "odd", timeout_ms=t) for t in (0, -1, 900_001, 2**31 - 1)),
        init("with the longest time-out", "odd", timeout_ms=900_000),
        init("claiming half an identity", "half", (7, -1)),
        init("claiming the other half", "half", (-1, 7)),
        init("claiming somebody's identity", "claims", (123_456, 3)),
        init("claiming an identity without a name", None, (123_456, 3)),
        add("of a stranger", "nobody", (5, 0)),
        add("of no name", "", (5, 0)),
        add_offsets("of a stranger", "nobody", (5, 0), "x-group"),
        add_offsets("of no name", "", (5, 0), "x-group"),
        add_offsets("of no group", "nobody", (5, 0), ""),
        end("of a stranger", "nobody", (5, 0), commits=True),
        end("of no name", "", (5, 0), commits=True),
        txn_commit("a stranger's name", "nobody", (5, 0), "x-group"),
        txn_commit("no name", "", (5, 0), "x-group"),
        txn_commit("no group", "nobody", (5, 0), ""),
        verify("of a stranger", "nobody", (5, 0)),
        verify("of a stranger v5", "nobody", (5, 0), version=5),
        produce("of a stranger", "nobody", (5, 0)),
        produce("of nobody", None, (5, 0)),
        describe("a stranger", "nobody"),
        describe("no id", ""),
        describe("no ids at all"),
        listed("everything there is"),
        listed("an unknown state of transactions", ("Sleeping", "Empty")),
        listed("in small letters", ("empty",)),
    ]


def one_transaction() -> Script:
    """Begun, written to, asked about, and committed."""
    me = of("init one")
    return [
        init("one", "one"),
        *(init(f"again with its own claim v{version}", "one", me, version=version) for version in (3, 4)),
        describe("one that has begun nothing", "one"),
        *_work(of("init again with its own claim v4")),
    ]


def _work(me: Pid) -> Script:
    older, newer, other = (
        of("init again with its own claim v4", **moved)
        for moved in ({"epoch": -1}, {"epoch": 1}, {"producer_id": 50_000})
    )
    return [
        end("what was not begun", "one", me, commits=True),
        end("what was not begun, the other way", "one", me, commits=False),
        produce("before it is added", "one", me),
        produce("before it is added v11", "one", me, version=11),
        add("in version 0", "one", me, version=0),
        add("in version 3", "one", me, 0, 1),
        add("again", "one", me),
        add("an unknown topic", "one", me, topic="nope"),
        add("an unknown partition", "one", me, 0, 99),
        add("nothing that is there", "one", me, topic=""),
        add("with an older epoch", "one", older),
        add("with an older epoch v1", "one", older, version=1),
        add("with a newer epoch", "one", newer),
        add("as another producer", "one", other),
        verify("what was added", "one", me, 0, 1),
        verify("what was not added", "one", me, 2),
        verify("what was not added v5", "one", me, 2, version=5),
        verify("with an older epoch", "one", older),
        produce("a first batch", "one", me),
        produce("a first batch again", "one", me),
        produce("where it was not added", "one", me, partition=2),
        produce("with a gap", "one", me, 5),
        produce("with an older epoch", "one", older, 1),
        produce("outside the transaction", "one", me, 1, transactional=False),
        produce("a second batch", "one", me, 1),
        describe("one that is at work", "one"),
        listed("what is at work", ("Ongoing",)),
        listed("what is at work v0", ("Ongoing",), version=0),
        listed("what has been for an hour", (), longer_ms=3_600_000),
        read("uncommitted while it is open", 0),
        read("committed while it is open", 1),
        ends("uncommitted while it is open", 0),
        ends("committed while it is open", 1),
        txn_commit("the group before it is added", "one", me, "x-group"),
        txn_commit("the group before it is added v4", "one", me, "x-group", version=4),
        add_offsets("in version 0", "one", me, "x-group", version=0),
        add_offsets("in version 3", "one", me, "x-group"),
        add_offsets("with an older epoch", "one", older, "x-group"),
        add_offsets("with an older epoch v1", "one", older, "x-group", version=1),
        *(txn_commit(f"version {version}", "one", me, "x-group", version=version) for version in range(5)),
        txn_commit("an older epoch", "one", older, "x-group"),
        txn_commit("an unknown topic", "one", me, "x-group", topic="nope"),
        txn_commit("an unknown partition", "one", me, "x-group", partition=99),
        txn_commit("metadata of 4097", "one", me, "x-group", metadata="m" * 4_097),
        txn_commit("a generation nobody made", "one", me, "x-group", generation_id=3, member_id="me"),
        txn_commit("a member nobody knows", "one", me, "x-group", member_id="me"),
        txn_commit("an instance nobody knows", "one", me, "x-group", group_instance_id="i"),
        fetch("what waits for the transaction", "x-group", topic=TOPIC),
        Step("fetch what waits, if it is stable", 9, 7, {"group_id": "x-group", "topics": [{"name": TOPIC, "partition_indexes": [0, 1]}], "require_stable": True}),
        Step("fetch all that waits, if it is stable", 9, 7, {"group_id": "x-group", "topics": None, "require_stable": True}),
        commit("beside the transaction", "x-group", 3, topic=TOPIC, partition=1),
        end("with an older epoch", "one", older, commits=True),
        end("with an older epoch v1", "one", older, commits=True, version=1),
        end("as another producer", "one", other, commits=True),
        end("and commit", "one", me, commits=True),
        is_over("one"),
        end("and commit again", "one", me, commits=True),
        end("and change one's mind", "one", me, commits=False),
        produce("after the end", "one", me, 2),
        read("uncommitted after the end", 0),
        read("committed after the end", 1),
        ends("committed after the end", 1),
        fetch("what was committed with it", "x-group", 0, 1, topic=TOPIC),
        Step("fetch what is stable now", 9, 7, {"group_id": "x-group", "topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": True}),
        describe("one that has committed", "one"),
        Step("producers of the topic", PRODUCERS, 0, {"topics": [{"name": TOPIC, "partition_indexes": [0, 1, 2]}]}),
    ]  # fmt: skip


def fenced() -> Script:
    """A second producer under the same name, which finds a transaction open."""
    first, second = of("init the first"), of("init the second")
    return [
        init("the first", "two"),
        add("of the first", "two", first, 1),
        produce("of the first", "two", first, partition=1),
        init("the second while the first is at work", "two", busy=True),
        init("the second", "two"),
        add("of the fenced", "two", first, 1),
        add("of the fenced v1", "two", first, 1, version=1),
        end("of the fenced", "two", first, commits=True),
        end("of the fenced v0", "two", first, commits=True, version=0),
        produce("of the fenced", "two", first, 1, partition=1),
        init("of the fenced", "two", first),
        init("of the fenced v3", "two", first, version=3),
        read("what was aborted", 1, 1),
        ends("committed after the abort", 1, 1),
        add("of the second", "two", second, 1),
        produce("of the second", "two", second, partition=1),
        end("and abort", "two", second, commits=False),
        is_over("two"),
        end("and abort again", "two", second, commits=False),
        end("and commit what was aborted", "two", second, commits=True),
        describe("one that has aborted", "two"),
        listed("what is over", ("CompleteAbort", "CompleteCommit")),
        listed("nobody's", (), (987_654,)),
    ]


def markers() -> Script:
    """Markers by hand, as brokers send them and administrators against a hanging transaction."""
    me = of("init the marked")
    return [
        init("the marked", "marked"),
        add("of the marked", "marked", me, 2),
        produce("of the marked", "marked", me, partition=2),
        mark("of an unknown topic", me, 0, topic="nope"),
        mark("of an unknown partition", me, 0, partition=99),
        mark("of an older epoch", of("init the marked", epoch=-1), 0, partition=2),
        mark("of a producer that never wrote", (77_777, 0), 0, partition=2),
        mark("and abort", me, 5, partition=2),
        ends("committed after the marker", 1, 2),
        mark("of an older coordinator", me, 4, partition=2),
        mark("of the same coordinator again", me, 5, partition=2, commits=True),
        read("what was marked", 1, 2),
        Step("mark nothing", MARKERS, 1, {"markers": []}),
    ]


SCRIPT: Script = [*strangers(), *one_transaction(), *fenced(), *markers()]
