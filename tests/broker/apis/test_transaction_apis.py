"""The transaction APIs over a real socket, in every version served."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.wire import WireClient

E = ErrorCode
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        config={
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
            "transaction.max.timeout.ms": 100_000,
        }
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as client:
        client.call(10, 3, {"key": "any", "key_type": 1})
        client.call(10, 3, {"key": "any", "key_type": 0})
        yield client


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 2)
    return name


@pytest.fixture
def tx() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


class Producer:
    """A transactional producer by hand."""

    def __init__(self, client: WireClient, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.transactional_id = transactional_id
        answer = self.init(timeout_ms)
        assert answer.error_code == E.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000) -> Any:
        body = {"transactional_id": self.transactional_id, "transaction_timeout_ms": timeout_ms}
        return again(lambda: self.client.call(22, 4, body))

    @property
    def identity(self) -> dict[str, Any]:
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch}

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        def call() -> Any:
            return self.client.call(
                24,
                version,
                {
                    "v3_and_below_transactional_id": self.transactional_id,
                    "v3_and_below_producer_id": self.producer_id,
                    "v3_and_below_producer_epoch": self.epoch,
                    "v3_and_below_topics": [{"name": topic, "partitions": partitions or (0,)}],
                },
            )

        def errors(answer: Any) -> list[int]:
            return [
                p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition
            ]

        while E.CONCURRENT_TRANSACTIONS in (found := errors(call())):
            pass
        return found

    def produce(
        self, topic: str, *values: str, partition: int = 0, transactional: bool = True, version: int = 9
    ) -> int:
        sequence = self.sequences.get((topic, partition), 0)
        batch = build_batch(
            [NewRecord(None, value.encode(), int(time.time() * 1_000)) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        body = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 5_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}],
        }
        error = self.client.call(0, version, body).responses[0].partition_responses[0].error_code
        if error == E.NONE:
            self.sequences[topic, partition] = sequence + len(values)
        return int(error)

    def end(self, committed: bool, version: int = 3) -> int:
        body = {"transactional_id": self.transactional_id, **self.identity, "committed": committed}
        return int(again(lambda: self.client.call(26, version, body)).error_code)


def again(call: Callable[[], Any]) -> Any:
    while (answer := call()).error_code == E.CONCURRENT_TRANSACTIONS:
        pass
    return answer


def read(client: WireClient, topic: str, isolation: int, partition: int = 0) -> list[str]:
    """Return the values a consumer of this isolation level sees."""
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "isolation_level": isolation,
        "topics": [
            {
                "topic": topic,
                "partitions": [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}],
            }
        ],
    }
    (found,) = client.call(1, 11, body).responses[0].partitions
    aborted = sorted((a.first_offset, a.producer_id) for a in found.aborted_transactions or ())
    values: list[str] = []
    dropping: set[int] = set()
    for batch in iter_batches(found.records or b""):
        while aborted and aborted[0][0] <= batch.base_offset:
            dropping.add(aborted.pop(0)[1])
        if batch.is_control:
            dropping.discard(batch.producer_id)
        elif batch.producer_id not in dropping:
            values += [record.value.decode() for record in batch.records()]
    return values


def latest(client: WireClient, topic: str, isolation: int) -> int:
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}
        ],
    }
    return int(client.call(2, 5, body).topics[0].partitions[0].offset)


def settled(client: WireClient, tx: str) -> str:
    """Wait for the markers; return the state."""
    while (state := describe(client, tx).transaction_state).startswith("Prepare") or state == "Ongoing":
        pass
    return state


def describe(client: WireClient, tx: str) -> Any:
    return client.call(65, 0, {"transactional_ids": [tx]}).transaction_states[0]


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


def test_the_oldest_open_transaction_holds_everybody_back(client: WireClient, topic: str, tx: str) -> None:
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


def test_a_new_producer_aborts_what_the_old_one_left_open(client: WireClient, topic: str, tx: str) -> None:
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


@pytest.mark.parametrize("version", [0, 1])
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
