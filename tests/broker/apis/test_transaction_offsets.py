"""Offsets in a transaction, markers written by hand, and what administration sees."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.broker.apis.transaction_client import READ_COMMITTED, E, Producer, describe, read, settled
from tests.broker.wire import WireClient

BROKER_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
    "transaction.max.timeout.ms": 100_000,
}
COORDINATORS = (1, 0)


# -- offsets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_in_a_transaction(client: WireClient, topic: str, tx: str, version: int, committed: bool) -> None:
    producer = Producer(client, tx)
    group = f"g-{tx}"
    offsets = {
        "transactional_id": tx,
        "group_id": group,
        **producer.identity,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 9, "committed_metadata": "m"},
                    {"partition_index": 7, "committed_offset": 9},
                ],
            }
        ],
    }

    def commit() -> list[int]:
        return [p.error_code for p in client.call(28, version, offsets).topics[0].partitions]

    outside = E.TRANSACTION_ABORTABLE if version >= 4 else E.INVALID_TXN_STATE
    assert commit() == [outside, E.UNKNOWN_TOPIC_OR_PARTITION]
    body = {"transactional_id": tx, **producer.identity, "group_id": group}
    assert client.call(25, min(version, 4), body).error_code == E.NONE
    assert commit() == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    producer.end(committed)
    settled(client, tx)
    fetched = client.call(9, 5, {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]})
    assert fetched.topics[0].partitions[0].committed_offset == (9 if committed else -1)


def test_a_fenced_member_cannot_commit_in_a_transaction(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    body = {"transactional_id": tx, **producer.identity, "group_id": "g"}
    client.call(25, 3, body)
    offsets = {**body, "generation_id": 4, "member_id": "gone",
               "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 9}]}]}  # fmt: skip
    assert client.call(28, 3, offsets).topics[0].partitions[0].error_code == E.ILLEGAL_GENERATION
    assert client.call(28, 3, {**offsets, "group_id": ""}).topics[0].partitions[0].error_code == E.INVALID_GROUP_ID


# -- markers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_markers_written_by_hand(client: WireClient, topic: str, tx: str, version: int) -> None:
    producer = Producer(client, tx)
    producer.add(topic, 0)
    producer.produce(topic, "a")

    def write(epoch: int, coordinator_epoch: int, *partitions: int) -> list[int]:
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": epoch,
            "transaction_result": True,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": topic, "partition_indexes": partitions}],
        }
        (answer,) = client.call(27, version, {"markers": [marker]}).markers
        return [p.error_code for p in answer.topics[0].partitions]

    assert write(producer.epoch, 7, 0, 9) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert read(client, topic, READ_COMMITTED) == ["a"]
    assert write(producer.epoch, 6, 0) == [E.TRANSACTION_COORDINATOR_FENCED]
    assert write(producer.epoch + 1, 7, 0) == [E.NONE]
    assert write(producer.epoch, 7, 0) == [E.INVALID_PRODUCER_EPOCH]


def test_a_marker_ends_pending_offsets(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    group = f"g-{tx}"
    body = {"transactional_id": tx, **producer.identity, "group_id": group}
    client.call(25, 3, body)
    offsets = {**body, "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 9}]}]}
    client.call(28, 3, offsets)
    count = len(client.call(3, 9, {"topics": [{"name": "__consumer_offsets"}]}).topics[0].partitions)
    marker = {
        **producer.identity,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "__consumer_offsets", "partition_indexes": list(range(count))}],
    }
    (answer,) = client.call(27, 1, {"markers": [marker]}).markers
    assert {p.error_code for p in answer.topics[0].partitions} == {E.NONE}
    fetched = client.call(9, 5, {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]})
    assert fetched.topics[0].partitions[0].committed_offset == 9


def test_offsets_that_come_while_the_marker_is_under_way_open_no_transaction(
    client: WireClient, topic: str, tx: str
) -> None:
    # The marker waited for the turn of the group's coordinator -> offsets of the same producer came, and the log said that its transaction was open ->
    # they were written behind the marker, as a transaction without an end: the next transaction of the producer would have committed them.
    producer = Producer(client, tx)
    group = f"g-{tx}"
    body = {"transactional_id": tx, **producer.identity, "group_id": group}
    client.call(25, 3, body)

    def offsets(offset: int) -> dict[str, Any]:
        partitions = [{"partition_index": 0, "committed_offset": offset}]
        return {**body, "topics": [{"name": topic, "partitions": partitions}]}

    client.call(28, 3, offsets(9))
    count = len(client.call(3, 9, {"topics": [{"name": "__consumer_offsets"}]}).topics[0].partitions)
    marker = {
        **producer.identity,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "__consumer_offsets", "partition_indexes": list(range(count))}],
    }
    client.send_raw(client.frame(27, 1, {"markers": [marker]}) + client.frame(28, 3, offsets(10)))
    client.receive()
    assert client.receive()[1].topics[0].partitions[0].error_code == E.INVALID_TXN_STATE
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}], "require_stable": True}
    (found,) = client.call(9, 7, asked).topics[0].partitions
    assert (found.error_code, found.committed_offset) == (E.NONE, 9)


# -- administration ----------------------------------------------------------------------------------------------------


def test_describe_transactions(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx, timeout_ms=50_000)
    producer.add(topic, 1, 0)
    found = describe(client, tx)
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (E.NONE, "Ongoing", 50_000)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(t.topic, t.partitions) for t in found.topics] == [(topic, (0, 1))]
    assert found.transaction_start_time_ms > 0
    assert describe(client, "nobody").error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("version", [0, 1, 2])
def test_list_transactions(client: WireClient, topic: str, tx: str, version: int) -> None:
    producer = Producer(client, tx)
    Producer(client, f"{tx}-empty")
    producer.add(topic, 0)

    def listed(**filters: Any) -> set[str]:
        answer = client.call(66, version, filters)
        assert answer.error_code == E.NONE
        return {t.transactional_id for t in answer.transaction_states}

    assert {tx, f"{tx}-empty"} <= listed()
    assert tx in listed(state_filters=["Ongoing"])
    assert f"{tx}-empty" not in listed(state_filters=["Ongoing"])
    assert listed(producer_id_filters=[producer.producer_id]) == {tx}
    assert listed(state_filters=["Nonsense"]) == set()
    assert client.call(66, version, {"state_filters": ["Nonsense"]}).unknown_state_filters == ("Nonsense",)
    if version >= 1:
        assert tx not in listed(duration_filter=1_000_000)


def test_transactions_are_listed_by_a_pattern_of_the_whole_id(client: WireClient, tx: str) -> None:
    for name in (tx, f"{tx}-second"):
        Producer(client, name)

    def listed(pattern: str | None) -> set[str]:
        answer = client.call(66, 2, {"transactional_id_pattern": pattern})
        assert answer.error_code == E.NONE
        return {each.transactional_id for each in answer.transaction_states}

    assert {tx, f"{tx}-second"} <= listed(None)
    assert {tx, f"{tx}-second"} <= listed("")
    assert listed(f"{tx}-s.*") == {f"{tx}-second"}
    assert listed(tx) == {tx}
    assert listed("second") == set()
    assert listed("(a*)*b") == set()  # Python's `re` would not come back from a long id
    for wrong in ("(", r"(a)\1", "(?=a)"):
        answer = client.call(66, 2, {"transactional_id_pattern": wrong})
        assert (answer.error_code, answer.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, ())


def test_transactions_go_on_after_a_restart(tmp_path, tx: str) -> None:
    config = {"transaction.state.log.num.partitions": 2}
    with Cluster(data=tmp_path, config=config) as cluster:
        cluster.create_topic("t", 1)
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            client.call(10, 3, {"key": tx, "key_type": 1})
            producer = Producer(client, tx)
            producer.add("t", 0)
            producer.produce("t", "before")
    with Cluster(data=tmp_path, config=config) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            while describe(client, tx).error_code == E.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            producer.client = client
            assert describe(client, tx).transaction_state == "Ongoing"
            assert read(client, "t", READ_COMMITTED) == []
            assert producer.produce("t", "after") == E.NONE
            assert producer.end(True) == E.NONE
            settled(client, tx)
            assert read(client, "t", READ_COMMITTED) == ["before", "after"]
