"""A leader that is cut off from its cluster: what it may not say any more, and who may go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.wire_connection import ListenerCredentials, WireConnection
from streamactors.broker.wire_request import call
from tests.broker.cluster.test_cluster_of_three import led_by
from tests.broker.live_broker import fetch_body, produce_body
from tests.broker.wire import wait_until

ALL = {1, 2, 3}
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def three(running: Cluster) -> Cluster:
    running.reset()
    return running


def address(cluster: Cluster, node: int) -> str:
    return cluster._several().node(node).address


def end_at(cluster: Cluster, node: int, topic: str) -> int | ErrorCode:
    """Return the end of a topic as a node names it, or its error."""
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
    answer = call(address(cluster, node), (2, 7), body).topics[0].partitions[0]
    return answer.offset if not answer.error_code else ErrorCode(answer.error_code)


def leader_at(cluster: Cluster, node: int, topic: str) -> int:
    return leader_and_epoch_at(cluster, node, topic)[0]


def leader_and_epoch_at(cluster: Cluster, node: int, topic: str) -> tuple[int, int]:
    asked = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
    found = call(address(cluster, node), (3, 12), asked).topics[0].partitions[0]
    return int(found.leader_id), int(found.leader_epoch)


def write(servers: str, topic: str, count: int) -> None:
    settings = {"bootstrap.servers": servers, "acks": "all", "request.timeout.ms": 1_000, "log_level": 0}
    producer = confluent_kafka.Producer(
        {**settings, "socket.timeout.ms": 3_000, "topic.metadata.refresh.interval.ms": 500}
    )
    for n in range(count):
        producer.produce(topic, str(n))
    assert producer.flush(30) == 0


def test_a_leader_that_is_cut_off_speaks_no_more_and_the_next_one_does(three: Cluster) -> None:
    led_by(three, "cut", 1)
    write(three.bootstrap_servers, "cut", 10)
    wait_until(lambda: end_at(three, 1, "cut") == 10, "node 1 holds its lease and names the end")
    three.partition({1}, {2, 3})
    wait_until(lambda: leader_at(three, 2, "cut") in (2, 3), "another broker leads")
    wait_until(lambda: end_at(three, 1, "cut") is REFUSED, "the lease of node 1 is over")
    write(address(three, 2), "cut", 5)
    assert end_at(three, leader_at(three, 2, "cut"), "cut") == 15
    at = address(three, 1)
    fetched = call(at, (1, 4), fetch_body(0, "cut")).responses[0].partitions[0]
    assert (fetched.error_code, fetched.records) in ((REFUSED, None), (REFUSED, b""))
    records = bytes(build_batch([NewRecord(None, b"lost", 1)]))
    for acks in (1, -1):  # the records would be lost when node 1 hears of the next leader
        produced = call(at, (0, 8), produce_body(records, "cut", acks=acks))
        assert produced.responses[0].partition_responses[0].error_code == REFUSED
    # librdkafka asks only brokers that it is connected to: it asked node 1 for the leader until the network was whole again
    leader, epoch = leader_and_epoch_at(three, 1, "cut")
    assert leader in (2, 3)
    # with the epoch of node 1 the next leader refused an admin client as one of the past: FENCED_LEADER_EPOCH
    assert epoch == -1
    epoch_end = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    ended = call(at, (23, 2), {"topics": [{"topic": "cut", "partitions": [epoch_end]}]})
    assert ended.topics[0].partitions[0].error_code == REFUSED
    three.heal()
    wait_until(lambda: leader_at(three, 1, "cut") in ALL, "node 1 knows the leader")
    wait_until(lambda: end_at(three, leader_at(three, 1, "cut"), "cut") == 15, "the leader names the end")


def test_a_consumer_that_knows_only_the_leader_that_is_cut_off_finds_the_next_one(three: Cluster) -> None:
    led_by(three, "idle", 1)
    write(three.bootstrap_servers, "idle", 3)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address(three, 1), "group.id": "g", "log_level": 0})
    consumer.assign([confluent_kafka.TopicPartition("idle", 0, 3)])
    consumer.poll(0.5)
    three.partition({1}, {2, 3})
    wait_until(lambda: leader_at(three, 2, "idle") in (2, 3), "another broker leads")
    write(address(three, 2), "idle", 2)
    found: list[Any] = []
    wait_until(
        lambda: found.append(consumer.poll(0.2)) or len([each for each in found if each is not None]) >= 2,
        "both are read",
    )
    consumer.close()


def test_a_coordinator_that_is_cut_off_names_no_committed_offsets(three: Cluster) -> None:
    # A consumer that starts beside it began at offsets from before.
    led_by(three, "read", 1)
    settings = {"bootstrap.servers": three.bootstrap_servers, "group.id": "cut group", "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    consumer.commit(offsets=[confluent_kafka.TopicPartition("read", 0, 7)], asynchronous=False)
    found = call(three.bootstrap_servers, (10, 3), {"key": "cut group", "key_type": 0})
    node = int(found.node_id)
    three.partition({node}, ALL - {node})

    def fetched() -> tuple[int, int]:
        body = {
            "group_id": "cut group",
            "topics": [{"name": "read", "partition_indexes": [0]}],
            "require_stable": False,
        }
        answer = call(address(three, node), (9, 7), body)
        return answer.error_code, answer.topics[0].partitions[0].committed_offset if answer.topics else -1

    wait_until(lambda: fetched()[0] == ErrorCode.NOT_COORDINATOR, "its lease is over")
    assert call(address(three, node), (10, 3), {"key": "cut group", "key_type": 0}).node_id != node
    consumer.close()


@pytest.mark.slow
def test_without_the_controller_a_leader_goes_on_while_its_replicas_in_sync_fetch() -> None:
    with Cluster(brokers=3, controllers=1, config={"min.insync.replicas": 1}) as cluster:
        asked = [{"partition_index": 0, "broker_ids": [2, 3]}]
        body = {
            "name": "t",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": asked,
            "configs": (),
        }
        made = call(
            cluster.bootstrap_servers, (19, 7), {"topics": [body], "timeout_ms": 30_000, "validate_only": False}
        )
        assert made.topics[0].error_code == 0
        cluster.await_isr("t", 0, {2, 3})
        write(cluster.bootstrap_servers, "t", 3)
        cluster.kill(1)
        time_of = time.monotonic() + 3  # longer than the session and the lag time
        wait_until(lambda: time.monotonic() > time_of, "the session with the controller is over")
        write(address(cluster, 2), "t", 2)
        assert end_at(cluster, 2, "t") == 5
        cluster.partition({2}, {3})
        wait_until(lambda: end_at(cluster, 2, "t") is REFUSED, "3 may lead")
        cluster.heal()
        wait_until(lambda: end_at(cluster, 2, "t") == 5, "3 fetches again")


def test_a_fetch_session_hears_that_the_leader_has_no_lease(three: Cluster) -> None:
    # Its requests name no partition again, and an idle partition is not looked at for each of them.
    led_by(three, "idle", 1)
    host, _, port = address(three, 1).rpartition(":")
    with WireConnection(host, int(port), ListenerCredentials(), 10) as connection:
        opened = connection.ask((1, 7), {**fetch_body(0, "idle"), "session_id": 0, "session_epoch": 0})
        three.partition({1}, {2, 3})
        epoch, codes = 0, []

        def refused() -> bool:
            nonlocal epoch
            epoch += 1
            asked = {**fetch_body(0, "idle"), "topics": [], "session_id": opened.session_id, "session_epoch": epoch}
            answer = connection.ask((1, 7), asked)
            codes.extend(each.error_code for topic in answer.responses for each in topic.partitions)
            return REFUSED in codes

        wait_until(refused, "the session says it")
