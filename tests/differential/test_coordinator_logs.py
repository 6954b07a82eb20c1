"""The internal topics change hands: groups, offsets and transactions written by one broker are served by the other out of the same files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache
from tests.differential.coordinator_steps import LOADING, NOT_COORDINATOR, Script, Step, comparable, play
from tests.differential.group_requests import awaited, commit, delete, find, id_of, join, sync, topic_of
from tests.differential.transaction_script import add, add_offsets, end, init, is_over, of, txn_commit

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

OFFSETS, TRANSACTIONS = "__consumer_offsets-0", "__transaction_state-0"
TOPIC = "held"
_LONG = {"session_timeout_ms": 1_800_000}

PREPARE: Script = [topic_of(TOPIC, 3), find("groups", 3, 0, "g"), find("transactions", 3, 1, "x"), awaited("g")]

LIVE: Script = [
    join("a member with a name", "named", group_instance_id="i-1", **_LONG),
    sync(
        "a member with a name",
        "named",
        id_of("join a member with a name"),
        1,
        id_of("join a member with a name"),
        group_instance_id="i-1",
    ),
    commit("its offset", "named", 11, id_of("join a member with a name"), 1, topic=TOPIC, group_instance_id="i-1"),
    commit("an offset", "plain", 7, topic=TOPIC, metadata="why", leader_epoch=0),
    commit("it again", "plain", 8, topic=TOPIC, metadata="why not", leader_epoch=0),
    commit("another", "plain", 9, topic=TOPIC, partition=1, metadata=None),
    commit("what is deleted", "gone", 3, topic=TOPIC),
    delete("it", "gone"),
    init("whole", "whole"),
    add("whole", "whole", of("init whole"), topic=TOPIC),
    end("whole", "whole", of("init whole"), commits=True),
    is_over("whole"),
    init("broken", "broken"),
    init("broken once more", "broken"),
    add("broken", "broken", of("init broken once more"), topic=TOPIC),
    end("broken", "broken", of("init broken once more"), commits=False),
    is_over("broken"),
    init("open", "open", timeout_ms=900_000),
    add("open", "open", of("init open"), 0, 2, topic=TOPIC),
    add_offsets("open", "open", of("init open"), "plain"),
    txn_commit("open", "open", of("init open"), "plain", partition=2, topic=TOPIC),
]

_BUSY = (LOADING, NOT_COORDINATOR)
LOOK: Script = [
    Step("groups", 15, 5, {"groups": ["named", "plain", "gone"], "include_authorized_operations": False}, "a", False, _BUSY),
    Step("list", 16, 5, {"states_filter": [], "types_filter": []}, "a", False, _BUSY),
    *(
        Step(f"offsets {stable}", 9, 8, {"groups": [{"group_id": g, "topics": None} for g in ("named", "plain", "gone")], "require_stable": stable}, "a", False, _BUSY)
        for stable in (False, True)
    ),
    Step("one that is not stable", 9, 8, {"groups": [{"group_id": "plain", "topics": [{"name": TOPIC, "partition_indexes": [0, 2]}]}], "require_stable": True}),
    Step("transactions", 65, 0, {"transactional_ids": ["whole", "broken", "open"]}, "a", False, _BUSY),
    Step("all transactions", 66, 0, {"state_filters": [], "producer_id_filters": []}, "a", False, _BUSY),
]  # fmt: skip

Serve = Callable[[Path], AbstractContextManager[str]]


@contextmanager
def theirs(folder: Path) -> Any:
    kafka = apache.ApacheKafka(folder)
    kafka.start()
    try:
        yield kafka.address
    finally:
        kafka.stop()


@contextmanager
def ours(folder: Path) -> Any:
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    config = {**settings, "group.initial.rebalance.delay.ms": 0}
    with Cluster(process=True, data=folder, config=config) as cluster:
        yield cluster.bootstrap_servers


def transplant(giver: Path, taker: Path) -> None:
    """Put one broker's internal topics into another's folder, as if it had crashed over them."""
    for partition in (OFFSETS, TRANSACTIONS):
        for old in (taker / partition).iterdir():
            if old.name != "partition.metadata":  # the topic's id is the taker's own
                old.unlink()
        for new in (giver / partition).iterdir():
            if new.name != "partition.metadata":
                shutil.copy(new, taker / partition)
    for checkpoint in [*taker.glob("*-checkpoint"), *taker.glob("*cleanshutdown")]:
        checkpoint.unlink()


def seen(address: str) -> dict[str, Any]:
    return comparable(play(address, LOOK))


@pytest.mark.parametrize(("giver", "taker"), [(theirs, ours), (ours, theirs)], ids=["to us", "from us"])
def test_groups_offsets_and_transactions_change_hands(tmp_path: Path, giver: Serve, taker: Serve) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    with giver(given) as address:
        play(address, [*PREPARE, *LIVE])
        before = seen(address)
    with taker(taken) as address:
        play(address, PREPARE)
    transplant(given, taken)
    with taker(taken) as address:
        after = seen(address)
    (named, plain, gone) = before["groups"]["groups"]
    assert (named["group_state"], plain["group_state"], gone["group_state"]) == ("Stable", "Empty", "Dead")
    states = {t["transactional_id"]: t["transaction_state"] for t in before["transactions"]["transaction_states"]}
    assert states == {"whole": "CompleteCommit", "broken": "CompleteAbort", "open": "Ongoing"}
    for name, answer in before.items():
        assert in_order(after[name]) == in_order(answer), name


def in_order(value: Any) -> Any:
    """Sort every list: Apache Kafka tells most of its lists in the order of a hash table."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value


def test_apache_kafkas_dump_tool_reads_our_internal_topics(tmp_path: Path) -> None:
    with ours(tmp_path / "data") as address:
        play(address, [*PREPARE, *LIVE])
    dump = [
        apache.tool(
            "org.apache.kafka.tools.DumpLogSegments",
            decoder,
            "--print-data-log",
            "--files",
            str(tmp_path / "data" / partition / f"{0:020}.log"),
        )
        for decoder, partition in (("--offsets-decoder", OFFSETS), ("--transaction-log-decoder", TRANSACTIONS))
    ]
    for told in dump:
        assert "isvalid: true" in told
        assert "isvalid: false" not in told
        assert "Exception" not in told
    assert '"group":"plain","topic":"held","partition":0' in dump[0].replace(" ", "")
    assert '"groupInstanceId":"i-1"' in dump[0].replace(" ", "")
    assert '"transactionalId":"open"' in dump[1].replace(" ", "")
