"""The transaction APIs over a real socket, in every version served."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.apis.transaction_client import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    E,
    Producer,
    describe,
    latest,
    read,
    settled,
)
from tests.broker.wire import WireClient

BROKER_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
    "transaction.max.timeout.ms": 100_000,
}
COORDINATORS = (1, 0)


# -- the life of a transaction -----------------------------------------------------------------------------------------


def test_read_committed_sees_a_transaction_when_it_has_committed(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    assert producer.add(topic, 0) == [E.NONE]
    assert producer.produce(topic, "a", "b") == E.NONE
    assert read(client, topic, READ_COMMITTED) == []
    assert read(client, topic, READ_UNCOMMITTED) == ["a", "b"]
    assert (latest(client, topic, READ_COMMITTED), latest(client, topic, READ_UNCOMMITTED)) == (0, 2)
    assert producer.end(True) == E.NONE
    assert settled(client, tx) == "CompleteCommit"
    assert read(client, topic, READ_COMMITTED) == ["a", "b"]
    assert latest(client, topic, READ_COMMITTED) == 3  # the marker has an offset too


def test_read_committed_never_sees_an_aborted_transaction(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    for values, committed in ((["a"], False), (["b"], True), (["c", "d"], False)):
        producer.add(topic, 0)
        producer.produce(topic, *values)
        producer.end(committed)
        settled(client, tx)
    assert read(client, topic, READ_COMMITTED) == ["b"]
    assert read(client, topic, READ_UNCOMMITTED) == ["a", "b", "c", "d"]


def test_the_oldest_open_transaction_limits_read_committed_consumers(client: WireClient, topic: str, tx: str) -> None:
    slow, fast = Producer(client, tx), Producer(client, f"{tx}-2")
    slow.add(topic, 0)
    slow.produce(topic, "slow")
    fast.add(topic, 0)
    fast.produce(topic, "fast")
    fast.end(True)
    settled(client, f"{tx}-2")
    assert read(client, topic, READ_COMMITTED) == []
    slow.end(False)
    settled(client, tx)
    assert read(client, topic, READ_COMMITTED) == ["fast"]


@pytest.mark.parametrize("version", range(7))
def test_init_producer_id_in_every_version(client: WireClient, tx: str, version: int) -> None:
    body = {"transactional_id": tx, "transaction_timeout_ms": 60_000}
    answer = client.call(22, version, body)
    assert (answer.error_code, answer.producer_epoch) == (E.NONE, 0)
    again = client.call(22, version, body)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, answer.producer_id, 1)
    if version >= 3:
        late = {**body, "producer_id": answer.producer_id, "producer_epoch": 0}
        fenced = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
        assert client.call(22, version, late).error_code == fenced
        mine = {**body, "producer_id": answer.producer_id, "producer_epoch": 1}
        assert client.call(22, version, mine).producer_epoch == 2


@pytest.mark.parametrize("timeout_ms", [0, -1, 100_001, 2**31 - 1])
def test_a_transaction_timeout_out_of_range_is_refused(client: WireClient, tx: str, timeout_ms: int) -> None:
    body = {"transactional_id": tx, "transaction_timeout_ms": timeout_ms}
    assert client.call(22, 4, body).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert describe(client, tx).error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000])
def test_an_impossible_transactional_id_is_refused(client: WireClient, transactional_id: str, topic: str) -> None:
    named = {"transactional_id": transactional_id, "producer_id": 1, "producer_epoch": 0}
    assert (
        client.call(22, 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 1}).error_code
        == E.INVALID_REQUEST
    )
    assert client.call(25, 3, {**named, "group_id": "g"}).error_code == E.INVALID_REQUEST
    assert client.call(26, 3, {**named, "committed": True}).error_code == E.INVALID_REQUEST
    assert describe(client, transactional_id).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version(client: WireClient, topic: str, tx: str, version: int) -> None:
    producer = Producer(client, tx)
    assert producer.add(topic, 0, 1, version=version) == [E.NONE, E.NONE]
    assert producer.add(topic, 0, 9, version=version) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    Producer(client, tx)
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert producer.add(topic, 0, version=version) == [fenced]


@pytest.mark.parametrize(
    ("flag", "error"),
    [("enable2_pc", E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("keep_prepared_txn", E.UNSUPPORTED_VERSION)],
)
def test_two_phase_commit_is_refused_rather_than_ignored(client: WireClient, tx: str, flag: str, error: E) -> None:
    body = {"transactional_id": tx, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    assert client.call(22, 6, {**body, flag: True}).error_code == error
    assert client.call(22, 6, body).error_code == E.NONE


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_whether_partitions_are_part_of_a_transaction(
    client: WireClient, topic: str, tx: str, version: int
) -> None:
    producer = Producer(client, tx)
    producer.add(topic, 0)
    ask = {
        "transactional_id": tx,
        **producer.identity,
        "verify_only": True,
        "topics": [{"name": topic, "partitions": [0, 1]}],
    }
    answer = client.call(24, version, {"transactions": [ask, {**ask, "transactional_id": "nobody"}]})
    known, unknown = (
        [p.partition_error_code for t in result.topic_results for p in t.results_by_partition]
        for result in answer.results_by_transaction
    )
    assert known == [E.NONE, E.TRANSACTION_ABORTABLE]
    assert unknown == [E.INVALID_PRODUCER_ID_MAPPING] * 2


@pytest.mark.parametrize("version", range(5))
def test_end_in_every_version(client: WireClient, topic: str, tx: str, version: int) -> None:
    producer = Producer(client, tx)
    assert producer.end(True, version) == E.INVALID_TXN_STATE
    producer.add(topic, 0)
    producer.produce(topic, "a")
    assert producer.end(True, version) == E.NONE
    assert producer.end(True, version) == E.NONE
    assert producer.end(False, version) == E.INVALID_TXN_STATE
    Producer(client, tx)
    assert producer.end(True, version) == (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)


def test_a_stranger_cannot_end_a_transaction(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    producer.add(topic, 0)
    producer.producer_id += 100
    assert producer.end(True) == E.INVALID_PRODUCER_ID_MAPPING
    assert producer.add(topic, 1) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert describe(client, tx).transaction_state == "Ongoing"


# -- fencing and time --------------------------------------------------------------------------------------------------


def test_a_new_producer_aborts_the_open_transaction_of_its_predecessor(client: WireClient, topic: str, tx: str) -> None:
    old = Producer(client, tx)
    old.add(topic, 0)
    old.produce(topic, "half")
    new = Producer(client, tx)
    assert new.epoch > old.epoch
    assert old.produce(topic, "late") == E.INVALID_PRODUCER_EPOCH
    new.add(topic, 0)
    new.produce(topic, "whole")
    new.end(True)
    settled(client, tx)
    assert read(client, topic, READ_COMMITTED) == ["whole"]


def test_a_transaction_open_for_too_long_is_aborted(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx, timeout_ms=1)
    producer.add(topic, 0)
    producer.produce(topic, "late")
    assert settled(client, tx) == "CompleteAbort"
    assert producer.end(True) == E.PRODUCER_FENCED
    assert read(client, topic, READ_COMMITTED) == []
    assert latest(client, topic, READ_COMMITTED) == latest(client, topic, READ_UNCOMMITTED)


@pytest.mark.parametrize(("version", "error"), [(9, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)])
def test_a_batch_outside_its_transaction_is_refused(
    client: WireClient, topic: str, tx: str, version: int, error: ErrorCode
) -> None:
    # The transaction is aborted -> a batch of it arrives late: it would open one that nobody ends.
    producer = Producer(client, tx)
    assert producer.produce(topic, "early", version=version) == error
    producer.add(topic, 1)
    assert producer.produce(topic, "elsewhere", version=version) == error
    producer.end(False)
    assert producer.produce(topic, "late", partition=1, version=version) in (error, E.NOT_ENOUGH_REPLICAS)
    settled(client, tx)
    assert latest(client, topic, READ_COMMITTED) == latest(client, topic, READ_UNCOMMITTED) == 0


def test_transactional_records_need_a_transactional_id(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    producer.add(topic, 0)
    producer.transactional_id = None  # type: ignore[assignment]
    assert producer.produce(topic, "a") == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_topic_that_asks_for_more_replicas_than_it_has_gets_its_markers(client: WireClient, tx: str) -> None:
    # The marker was refused forever, and no producer could use the transactional id again.
    strict = [{"name": "min.insync.replicas", "value": "2"}]
    topic = {"name": f"{tx}-strict", "num_partitions": 1, "replication_factor": 1, "configs": strict}
    assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
    producer = Producer(client, tx)
    producer.add(f"{tx}-strict", 0)
    assert producer.produce(f"{tx}-strict", "a") == E.NONE
    assert producer.end(True) == E.NONE
    assert settled(client, tx) == "CompleteCommit"
    assert read(client, f"{tx}-strict", READ_COMMITTED) == ["a"]
