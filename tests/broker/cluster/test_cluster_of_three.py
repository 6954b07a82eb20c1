"""`Cluster(brokers=3, controllers=1)`: three processes, which are killed, stopped, paused and cut off from each other while clients work."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from streamactors.broker import Cluster, wire_request
from streamactors.broker.cluster.acked import AckedRecordsDiffer
from streamactors.broker.cluster.view import View
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, Refusal
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.wire_request import call
from tests.broker.live_broker import produce_body
from tests.broker.wire import wait_until

ALL = {1, 2, 3}


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=1) as cluster:
        yield cluster


@pytest.fixture
def three(running: Cluster) -> Cluster:
    running.reset()
    return running


def test_a_topic_whose_creation_is_asked_for_twice_is_created(three: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # The controller created the topic and gave its leadership up before it answered, and the broker asked the next controller.
    genuine = wire_request.create_topic

    def twice(*arguments: Any) -> None:
        genuine(*arguments)
        genuine(*arguments)

    monkeypatch.setattr(wire_request, "create_topic", twice)
    three.create_topic("twice")
    with pytest.raises(Refusal, match="'twice' already exists"):
        three.create_topic("twice")


class Load:
    """A producer with acks=all in a thread of its own; `acked` has what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acked: list[tuple[str, bytes]] = []
        self.failed: list[str] = []
        self._topic = topic
        self._end = threading.Event()
        self._some = threading.Condition()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
                # A leader that is cut off does not know that another leads: it only lets requests time out, and librdkafka asks
                # for new metadata only at this interval.
                "request.timeout.ms": 1_000,
                "topic.metadata.refresh.interval.ms": 500,
                "socket.timeout.ms": 3_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def await_more(self, count: int = 200) -> None:
        """Wait for acknowledgements from now on."""
        with self._some:
            wanted = len(self.acked) + count
            assert self._some.wait_for(lambda: len(self.acked) >= wanted, 60), (len(self.acked), self.failed[:3])

    def _run(self) -> None:
        number = 0
        while not self._end.is_set():
            value = b"%d" % number
            number += 1
            self._producer.produce(
                self._topic, value, on_delivery=lambda error, _, value=value: self._done(error, value)
            )
            self._producer.poll(0.001)
        self._producer.flush(60)

    def _done(self, error: object, value: bytes) -> None:
        with self._some:
            if error is None:
                self.acked.append((self._topic, value))
            else:
                self.failed.append(str(error))
            self._some.notify_all()


def led_by(cluster: Cluster, topic: str, node: int) -> None:
    """Create a topic with one partition that a node leads.

    A node that was cut off until now may be fenced at this moment, so another one may lead first."""
    others = sorted(ALL - {node})
    body = {
        "name": topic,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [node, *others]}],
        "configs": (),
    }
    answer = call(cluster.bootstrap_servers, (19, 7), {"topics": [body], "timeout_ms": 30_000, "validate_only": False})
    assert answer.topics[0].error_code == 0, answer
    cluster._several().await_topic(topic)
    cluster.await_isr(topic, 0, ALL)
    preferred = {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": [0]}], "timeout_ms": 5_000}

    def leads() -> bool:
        if cluster.leader(topic) == node:
            return True
        call(cluster.bootstrap_servers, (43, 2), preferred)
        return False

    wait_until(leads, f"node {node} leads {topic}")


def test_a_topic_has_as_many_replicas_as_it_is_asked_for(three: Cluster) -> None:
    three.create_topic("twice", replication_factor=2)
    assert len(three._several()._view.partition("twice", 0).replicas) == 2
    with pytest.raises(BrokerError, match="replication factor of 4"):
        three.create_topic("four-times", replication_factor=4)


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(three: Cluster) -> None:
    led_by(three, "killed", 2)
    with Load(three, "killed") as load:
        load.await_more()
        three.kill(2)
        load.await_more()
        assert three.leader("killed") in {1, 3}
        three.await_isr("killed", 0, {1, 3}, timeout=30)
        three.start(2)
        three.await_isr("killed", 0, ALL, timeout=30)
        load.await_more()
    assert load.failed == []
    assert three.acked_check(load.acked) == len(load.acked) >= 600


def test_a_broker_names_no_leader_rather_than_one_that_has_ended(three: Cluster) -> None:
    # The leader died -> librdkafka asked another broker at once, before the election -> heard of the dead leader -> asked again after a second:
    # the next write was acknowledged 1.0 to 2.0 s after kill -9. It asks every 100 ms while it hears of no leader.
    led_by(three, "ended", 2)
    at_three = View(lambda: [three.bootstrap_servers.split(",")[2]])
    three.pause(1)  # Node 1 is the only controller, so no leader can be elected.
    three.kill(2)
    wait_until(lambda: at_three.partition("ended", 0).leader == -1, "node 3 has lost its connection to the leader")
    (found,) = at_three.metadata(["ended"]).topics[0].partitions
    assert found.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    three.resume(1)
    wait_until(lambda: at_three.partition("ended", 0).leader in {1, 3}, "another broker leads")


@pytest.mark.slow
def test_a_node_that_stops_in_order_hands_over(three: Cluster) -> None:
    led_by(three, "stopped", 3)
    with Load(three, "stopped") as load:
        load.await_more()
        three.stop(3)
        assert three.leader("stopped") != 3
        load.await_more()
    three.start(3)
    three.await_isr("stopped", 0, ALL, timeout=30)
    assert load.failed == []
    three.acked_check(load.acked)


@pytest.mark.slow
def test_a_paused_leader_is_replaced_and_what_it_alone_has_is_not_acknowledged(three: Cluster) -> None:
    led_by(three, "paused", 2)
    with Load(three, "paused") as load:
        load.await_more()
        three.pause(2)
        three.await_isr("paused", 0, {1, 3}, timeout=30)
        load.await_more()
        three.resume(2)
        three.await_isr("paused", 0, ALL, timeout=30)
    three.acked_check(load.acked)


@pytest.mark.slow
def test_a_leader_that_is_cut_off_is_replaced_and_gives_up_what_it_alone_has(three: Cluster) -> None:
    led_by(three, "cut", 2)
    at_leader = three.bootstrap_servers.split(",")[1]
    three.partition({2}, {1, 3})
    batch = bytes(build_batch([NewRecord(None, b"of the old leader", 0)]))
    answer = call(at_leader, (0, 9), produce_body(batch, "cut", timeout_ms=300))
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.REQUEST_TIMED_OUT, "no follower can have it"
    three.await_isr("cut", 0, {1, 3}, timeout=30)
    assert three.leader("cut") in {1, 3}
    others = ",".join(each for each in three.bootstrap_servers.split(",") if each != at_leader)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": others, "log_level": 0, "topic.metadata.refresh.interval.ms": 300}
    )
    producer.produce("cut", b"of the new leader")
    assert producer.flush(60) == 0
    three.heal()
    three.await_isr("cut", 0, ALL, timeout=60)
    assert three.acked_check([("cut", b"of the new leader")]) == 1
    with pytest.raises(AckedRecordsDiffer, match="1 are missing"):
        three.acked_check([("cut", b"of the old leader")])


@pytest.mark.slow
def test_a_node_that_lost_its_disk_copies_everything(three: Cluster) -> None:
    led_by(three, "copied", 3)
    producer = confluent_kafka.Producer({"bootstrap.servers": three.bootstrap_servers, "log_level": 0})
    producer.produce("copied", b"x")
    assert producer.flush(30) == 0
    three.kill(3)
    three.await_isr("copied", 0, {1, 2}, timeout=30)
    shutil.rmtree(three.data_folder / "3")
    three.start(3)
    three.await_isr("copied", 0, ALL, timeout=30)
    assert three.leader("copied") != 3
    assert (three.data_folder / "3" / "copied-0" / "00000000000000000000.log").stat().st_size > 0


@pytest.mark.slow
def test_a_transaction_ends_though_its_coordinator_and_its_leader_are_killed(three: Cluster) -> None:
    led_by(three, "written", 3)
    settings = {
        "bootstrap.servers": three.bootstrap_servers,
        "transactional.id": "one",
        "retry.backoff.max.ms": 100,
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(60)
    acked = []
    for node in (2, 3, 2):
        producer.begin_transaction()
        value = b"%d before %d was killed" % (len(acked), node)
        producer.produce("written", value)
        producer.flush(30)
        three.kill(node)
        producer.commit_transaction(60)
        acked.append(("written", value))
        three.start(node)
        three.await_isr("written", 0, ALL, timeout=30)
    assert three.acked_check(acked) == 3


def test_a_slow_follower_stays_in_sync(three: Cluster) -> None:
    led_by(three, "slow", 1)
    three.slow(3, ms=50)
    with Load(three, "slow") as load:
        load.await_more()
    assert three.isr("slow") == ALL
    three.acked_check(load.acked)


@pytest.mark.slow
def test_a_controller_that_is_back_goes_on(three: Cluster) -> None:
    led_by(three, "controller", 2)
    three.kill(1)
    three.start(1)
    three.await_isr("controller", 0, ALL, timeout=30)
    assert three.controller() == 1
    three.create_topic("after")
    assert three.leader("after") in ALL


@pytest.mark.slow
def test_reset_brings_a_cluster_back_whatever_was_done_to_it(three: Cluster) -> None:
    three.create_topic("gone")
    three.partition({1, 2}, {3})
    three.kill(2)
    three.pause(3)
    three.reset()
    three.create_topic("fresh", partitions=3)
    three.await_isr("fresh", 2, ALL, timeout=30)
    with pytest.raises(Exception, match="no partition gone-0"):
        three.leader("gone")


def test_a_lost_or_doubled_record_is_found(three: Cluster) -> None:
    led_by(three, "checked", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": three.bootstrap_servers, "log_level": 0})
    for value in (b"once", b"twice", b"twice"):
        producer.produce("checked", value)
    assert producer.flush(30) == 0
    assert three.acked_check([("checked", b"once")]) == 1
    with pytest.raises(AckedRecordsDiffer, match=r"1 are missing .*never.* and 1 are there more than once .*twice"):
        three.acked_check([("checked", b"once"), ("checked", b"twice"), ("checked", b"never")])


@pytest.mark.slow
def test_a_group_and_its_offsets_survive_their_coordinator(three: Cluster) -> None:
    led_by(three, "grouped", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": three.bootstrap_servers, "log_level": 0})
    producer.produce("grouped", b"x")
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": three.bootstrap_servers,
        "group.id": "g",
        "log_level": 0,
        "retry.backoff.max.ms": 100,
    }
    where = confluent_kafka.TopicPartition("grouped", 0, 1)
    consumer = confluent_kafka.Consumer(settings)
    for coordinator in sorted(ALL - {three.controller()}):
        consumer.commit(offsets=[where], asynchronous=False)
        three.kill(coordinator)
        assert [each.offset for each in consumer.committed([where], timeout=30)] == [1]
        three.start(coordinator)
        for index in range(4):
            three.await_isr("__consumer_offsets", index, ALL, timeout=30)
    consumer.close()


def test_one_broker_has_no_nodes_and_a_wrong_node_is_named() -> None:
    with Cluster() as one, pytest.raises(BrokerStartError, match=r"Cluster\(brokers=3\)"):
        one.pause(1)
    with pytest.raises(BrokerStartError, match="1 to 9"):
        Cluster(brokers=10)
    with pytest.raises(BrokerStartError, match="listen is for one broker"):
        Cluster(brokers=3, listen="127.0.0.1:9092")


def test_an_unknown_node_is_named(three: Cluster) -> None:
    with pytest.raises(BrokerStartError, match="nodes 1 to 3"):
        three.kill(4)
    three.kill(2)
    with pytest.raises(BrokerStartError, match=r"start\(2\)"):
        three.kill(2)


def test_a_node_whose_process_has_ended_by_itself_is_started_again(three: Cluster) -> None:
    os.kill(three.pids[2], signal.SIGKILL)
    wait_until(lambda: 2 not in three.pids, "the process has ended")
    three.start(2)
    assert set(three.pids) == ALL
    os.kill(three.pids[3], signal.SIGKILL)
    wait_until(lambda: 3 not in three.pids, "the process has ended")
    three.reset()
    assert set(three.pids) == ALL
