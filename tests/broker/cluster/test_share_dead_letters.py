"""Dead letters of share groups in a cluster of two brokers: the leaders of the topic and of the queue are different ones."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import iter_batches
from tests.broker.apis.share_member import REJECT, ShareMember
from tests.broker.cluster.test_share_groups import _clients
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
TOPIC, QUEUE, GROUP = "t", "dlq.t", "g"


def _create(client: WireClient, name: str, leader: int, **configs: str) -> None:
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [leader]}],
        "configs": [{"name": each.replace("_", "."), "value": value} for each, value in configs.items()],
    }
    answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    assert answer.topics[0].error_code == E.NONE, answer


def _letters(client: WireClient) -> list[bytes | None]:
    """Return the offsets of the originals that are in the queue."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {"replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20}
    answer = client.call(1, 12, {**body, "topics": [{"topic": QUEUE, "partitions": [partition]}]})
    records = answer.responses[0].partitions[0].records
    return [
        dict(record.headers)["__dlq.errors.offset"]
        for each in iter_batches(bytearray(records or b""))
        for record in each.records()
    ]


def test_a_dead_letter_reaches_a_queue_that_another_broker_leads() -> None:
    with Cluster(brokers=2, config=SETTINGS) as cluster:
        clients: dict[int, Any] = _clients(cluster)
        near, far = sorted(clients)
        one = clients[near]
        _create(one, TOPIC, near)
        _create(one, QUEUE, far, errors_deadletterqueue_group_enable="true")
        configs = [{"name": "errors.deadletterqueue.topic.name", "config_operation": 0, "value": QUEUE}]
        resource = {"resource_type": 32, "resource_name": GROUP, "configs": configs}
        assert one.call(44, 1, {"resources": [resource], "validate_only": False}).responses[0].error_code == E.NONE
        (topic,) = one.call(3, 12, {"topics": [{"topic_id": None, "name": TOPIC}]}).topics
        wait_until(
            lambda: (
                one.call(0, 9, produce_body(batch(b"a", b"b", b"c"), TOPIC))
                .responses[0]
                .partition_responses[0]
                .error_code
                == E.NONE
            )
        )
        part = {"partition": 0, "state_epoch": 1, "start_offset": 0}
        state = {"group_id": GROUP, "topics": [{"topic_id": topic.topic_id, "partitions": [part]}]}
        key = {"key_type": 2, "coordinator_keys": [f"{GROUP}:{'A' * 22}:0"]}
        wait_until(lambda: one.call(10, 6, key).coordinators[0].error_code == E.NONE, timeout_s=60)
        coordinator = clients[one.call(10, 6, key).coordinators[0].node_id]
        wait_until(lambda: coordinator.call(83, 0, state).results[0].partitions[0].error_code == E.NONE, timeout_s=60)
        member = ShareMember(one, topic.topic_id, "m1", GROUP)
        assert member.take() == [(0, 2, 1)]
        assert member.acknowledge((0, 1, REJECT)).error_code == E.NONE
        wait_until(lambda: _letters(clients[far]) == [b"0", b"1"], timeout_s=60)
