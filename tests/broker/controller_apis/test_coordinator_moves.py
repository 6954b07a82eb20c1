"""The coordinator of a producer of transaction.version 2 stops in each phase of its transaction; the next one continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode as E
from tests.broker.apis.transaction_client import READ_COMMITTED, read, settled
from tests.broker.controller_apis.test_verification_elsewhere import LEADER, TOPIC, Elsewhere
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.wire import WireClient, wait_until

OTHER = 3  # neither the controller nor the leader of the topic
BUSY = (E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.CONCURRENT_TRANSACTIONS)
STATES = "__transaction_state"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeBrokers]:
    settings: dict[str, Any] = {
        "transaction_state_log_num_partitions": 3,
        "transaction_state_log_replication_factor": 3,
        "offsets_topic_num_partitions": 1,
    }
    with ThreeBrokers(tmp_path, **settings) as cluster:
        with cluster.brokers[1].client() as client:
            topic = {
                "name": TOPIC, "num_partitions": -1, "replication_factor": -1, "configs": [],
                "assignments": [{"partition_index": n, "broker_ids": [LEADER]} for n in range(2)],
            }  # fmt: skip
            assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
        cluster.await_partition(TOPIC, lambda each: each.leader == LEADER, "the leader knows the topic", LEADER)
        yield cluster


class Moving(Elsewhere):
    """A producer that finds its coordinator again."""

    @staticmethod
    def _found(cluster: ThreeBrokers) -> tuple[str, int]:
        found: list[tuple[str, int]] = []

        def some() -> bool:
            for number in range(20):
                body = {"key_type": 1, "coordinator_keys": [f"tx-{number}"]}
                (answer,) = cluster.brokers[1].client().call(10, 4, body).coordinators
                if answer.error_code == 0 and answer.node_id == OTHER:
                    found.append((answer.key, answer.node_id))
                    return True
            return False

        wait_until(some, "broker 3 coordinates a transactional id")
        return found[0]

    def follow(self, cluster: ThreeBrokers) -> WireClient:
        """Return a client of the present coordinator."""
        nodes: list[int] = []

        def known() -> bool:
            body = {"key_type": 1, "coordinator_keys": [self.transactional_id]}
            (answer,) = self.leader.call(10, 4, body).coordinators
            nodes[:] = [answer.node_id]
            return answer.error_code == 0 and answer.node_id not in (-1, OTHER)

        wait_until(known, "another broker coordinates the id")
        self.client = self.coordinator = cluster.brokers[nodes[0]].client()
        return self.client

    def end_again(self, commit: bool) -> int:
        while (error := self.end(commit, 5)) in BUSY:
            pass
        return error


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["open", "ended", "settled"])
@pytest.mark.parametrize("commit", [True, False])
def test_the_next_coordinator_gives_the_same_answer(cluster: ThreeBrokers, phase: str, commit: bool) -> None:
    producer = Moving(cluster)
    before = (producer.producer_id, producer.epoch)
    for partition in range(2):
        assert producer.write(b"a", 0, version=12, partition=partition) == E.NONE
    if phase != "open":
        assert producer.end_again(commit) == E.NONE
    if phase == "settled":
        settled(producer.coordinator, producer.transactional_id)
    cluster.stop(OTHER)
    producer.follow(cluster)
    producer.producer_id, producer.epoch = before
    assert producer.end_again(commit) == E.NONE
    assert (producer.producer_id, producer.epoch) == (before[0], before[1] + 1)
    while (error := producer.write(b"b", 0, version=12)) == E.CONCURRENT_TRANSACTIONS:
        pass
    assert error == E.NONE
    assert producer.end_again(True) == E.NONE
    assert settled(producer.coordinator, producer.transactional_id) == "CompleteCommit"
    assert read(producer.leader, TOPIC, READ_COMMITTED) == (["a", "b"] if commit else ["b"])
    assert read(producer.leader, TOPIC, READ_COMMITTED, 1) == (["a"] if commit else [])
