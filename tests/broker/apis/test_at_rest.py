"""After its last answer a broker is at rest: every request that makes a connection mute, asked once, costs nothing afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.clock import VirtualClock
from tests.broker.apis.transaction_client import E, Producer
from tests.broker.at_rest import ready_in
from tests.broker.live_broker import GatedDisk, LiveBroker, batch, fetch_body, produce_body
from tests.broker.scram_login import log_in
from tests.broker.wire import WireClient, wait_until
from tests.differential.quota_script import alter

IN_FLIGHT = 64
COMMITTED = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture(name="broker")
def live_broker(tmp_path: Path, disk: GatedDisk) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        yield live
        disk.let_go()


def until_done(client: WireClient, key: int, version: int, body: dict[str, Any]) -> Any:
    """Ask until the coordinator has loaded its partition."""
    while True:
        answer = client.call(key, version, body)
        codes = [each.error_code for topic in getattr(answer, "topics", ()) for each in topic.partitions]
        if not {E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR} & {*codes, getattr(answer, "error_code", 0)}:
            return answer


def commit_offset(client: WireClient, group: str) -> None:
    client.call(10, 2, {"key": group, "key_type": 0})
    answer = until_done(client, 8, 7, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": COMMITTED})
    assert answer.topics[0].partitions[0].error_code == E.NONE


def test_a_committed_offset_leaves_the_broker_at_rest(broker: LiveBroker) -> None:
    client = broker.client()
    commit_offset(client, "g")
    assert ready_in(broker.node.data_plane) == []


def test_an_offset_committed_in_a_transaction_leaves_the_broker_at_rest(broker: LiveBroker) -> None:
    client = broker.client()
    client.call(10, 2, {"key": "tx", "key_type": 1})
    until_done(client, 22, 4, {"transactional_id": "tx", "transaction_timeout_ms": 60_000})
    producer = Producer(client, "tx")
    body = {"transactional_id": "tx", **producer.identity, "group_id": "g"}
    assert until_done(client, 25, 3, body).error_code == E.NONE
    answer = until_done(client, 28, 3, {**body, "topics": COMMITTED})
    assert answer.topics[0].partitions[0].error_code == E.NONE
    assert ready_in(broker.node.data_plane) == []


def test_deleted_offsets_leave_the_broker_at_rest(broker: LiveBroker) -> None:
    commit_offset(broker.client(), "g")
    client = broker.client()
    body = {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
    assert client.call(47, 0, body).topics[0].partitions[0].error_code == E.NONE
    assert ready_in(broker.node.data_plane) == []


def test_as_many_fetches_as_may_be_in_service_leave_the_broker_at_rest(broker: LiveBroker) -> None:
    client = broker.client()
    for _ in range(IN_FLIGHT):
        client.send(1, 12, fetch_body(max_wait_ms=30_000))
    wait_until(lambda: any(each.muted for each in list(broker.node.processor.connections.values())))
    broker.client().call(0, 9, produce_body(batch(b"a")))
    for _ in range(IN_FLIGHT):
        assert client.receive()[1].responses[0].partitions[0].records
    assert ready_in(broker.node.data_plane) == []


def test_a_hundred_unsynced_produces_of_one_connection_leave_the_broker_at_rest(
    broker: LiveBroker, disk: GatedDisk
) -> None:
    client = broker.client()
    disk.hold()
    for _ in range(100):
        client.send(0, 9, produce_body(batch(b"a")))
    wait_until(lambda: any(each.muted for each in list(broker.node.processor.connections.values())))
    disk.let_go()
    for number in range(100):
        assert client.receive()[1].responses[0].partition_responses[0].base_offset == number
    assert ready_in(broker.node.data_plane) == []


def test_an_idle_producer_of_librdkafka_leaves_the_broker_at_rest(broker: LiveBroker, disk: GatedDisk) -> None:
    from confluent_kafka import Producer as Librdkafka

    producer = Librdkafka({"bootstrap.servers": broker.address, "acks": "all", "batch.num.messages": 1})
    disk.hold()
    for number in range(200):
        producer.produce("orders", b"%d" % number)
        producer.poll(0)
    wait_until(lambda: any(each.muted for each in list(broker.node.processor.connections.values())))
    disk.let_go()
    assert producer.flush(30) == 0
    assert ready_in(broker.node.data_plane) == []


def test_a_throttled_client_leaves_the_broker_at_rest_during_the_throttle_and_after_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock) as broker:
        broker.create_topic("orders")
        with broker.client() as admin:
            assert alter(admin, {"client-id": "test"}, {"producer_byte_rate": 1_000}) == [(0, None)]
        client = broker.client()
        body = produce_body(batch(b"." * 20_000, timestamp=clock.wall_ms()))
        throttle_ms = client.call(0, 9, body).throttle_time_ms
        assert throttle_ms > 0
        client.send(3, 9, {"topics": None})
        wait_until(
            lambda: (False, False) in [each.registered for each in list(broker.node.processor.connections.values())]
        )
        assert ready_in(broker.node.data_plane) == []
        clock.advance(throttle_ms / 1_000)
        client.receive()
        assert ready_in(broker.node.data_plane) == []


def test_a_login_leaves_the_broker_at_rest_and_so_does_one_that_failed() -> None:
    with Cluster(users={"ann": "a"}) as cluster:
        host, port = cluster.bootstrap_servers.split(",")[0].rsplit(":", 1)
        data_plane = cluster._running._broker.node.data_plane  # type: ignore[union-attr]
        with WireClient(host, int(port)) as ann, WireClient(host, int(port)) as guesser:
            assert log_in(ann, "ann", "a").error_code == E.NONE
            ann.call(3, 9, {"topics": None})
            assert ready_in(data_plane) == []
            assert log_in(guesser, "ann", "wrong").error_code == E.SASL_AUTHENTICATION_FAILED
            guesser.send(3, 9, {"topics": None})
            assert guesser.closed_by_peer()
            assert ready_in(data_plane) == []
