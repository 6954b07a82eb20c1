"""The limit of request bytes beside acks=all: the followers' requests do not wait for the bytes that wait for the followers."""

from __future__ import annotations

from pathlib import Path

from streamactors.broker.errors import ErrorCode as E
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import batch, produce_body

LEADER = 2
TOPIC = "orders"


def test_producers_with_acks_all_go_on_when_their_requests_exceed_the_limit_of_request_bytes(tmp_path: Path) -> None:
    with ThreeBrokers(tmp_path, queued_max_request_bytes=10_000) as cluster:
        with cluster.brokers[1].client() as client:
            topic = {
                "name": TOPIC, "num_partitions": -1, "replication_factor": -1, "configs": [],
                "assignments": [{"partition_index": 0, "broker_ids": [LEADER, 1, 3]}],
            }  # fmt: skip
            assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
        cluster.await_partition(
            TOPIC, lambda each: each.leader == LEADER and len(each.isr) == 3, "all replicas are in sync", LEADER
        )
        clients = [cluster.brokers[LEADER].client() for _ in range(6)]
        body = produce_body(batch(b"x" * 12_000), TOPIC, acks=-1, timeout_ms=10_000)
        for _ in range(5):
            for client in clients:
                client.send(0, 9, body)
        for client in clients:
            for _ in range(5):
                answer = client.receive()[1].responses[0].partition_responses[0]
                assert E(answer.error_code) is E.NONE
            client.close()
