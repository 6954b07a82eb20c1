"""Three members of a group under load: partitions change hands in order, once, under both protocols; and the broker goes away and returns."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker.wire_request import create_topic
from streamactors.kafka import Consumer, ConsumerSettings, DrainingControl, MetadataClient, Subscriptions
from streamactors.kafka.errors import CommitTimeout
from tests.faults.broker_process import BrokerProcess
from tests.kafka._members import QUICK_GROUPS, WAYS, member_settings

PARTITIONS = 6


class Load:
    """A producer that goes on until it has written so many records to each partition."""

    def __init__(self, bootstrap_servers: str, topic: str, each: int) -> None:
        self.stop = threading.Event()
        self._client = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0, "linger.ms": 1}
        )
        self._topic, self._each = topic, each
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for offset in range(self._each):
            for partition in range(PARTITIONS):
                self._client.produce(self._topic, b"%d" % offset, partition=partition)
            if offset % 10 == 0:
                self._client.poll(0)
                self.stop.wait(0.01)

    def join(self) -> None:
        self.stop.set()
        self._thread.join(30)
        assert self._client.flush(60) == 0


class Log:
    """What all members have done, in the order in which they did it."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def store(self, record) -> None:
        with self._lock:
            self.done.append((record.partition, record.offset))

    def of(self, partition: int) -> list[int]:
        return [offset for p, offset in self.done if p == partition]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS)
def test_three_members_come_and_go_under_load_and_nothing_comes_twice_or_out_of_order(
    cluster, settings, system, wait_for, committed, strategy
):
    topic, each, log = f"load-{strategy}", 1_000, Log()
    cluster.create_topic(topic, partitions=PARTITIONS)
    quick = member_settings(settings, strategy)
    source = Consumer.source(quick, Subscriptions.topics(topic)).map_async(4, lambda record: record)
    graph = source.to_mat(Sink.foreach(log.store), DrainingControl.create)
    load = Load(cluster.bootstrap_servers, topic, each)
    members = []

    def shared_by(n):
        return lambda: sorted(len(m.snapshot().get("partitions", {})) for m in members) == [PARTITIONS // n] * n

    for n in (1, 2, 3):
        members.append(graph.run(system))
        wait_for(shared_by(n))
        before = len(log.done)
        wait_for(lambda before=before: len(log.done) > before + 200 or len(log.done) == each * PARTITIONS)
    for n in (2, 1):
        members.pop(0).drain_and_shutdown(timeout=30)
        wait_for(shared_by(n))
    load.join()
    wait_for(lambda: len(log.done) >= each * PARTITIONS)
    members.pop().drain_and_shutdown(timeout=30)
    for partition in range(PARTITIONS):
        assert log.of(partition) == list(range(each)), "whoever has it: every record once, in order"
    assert committed(topic, PARTITIONS) == dict.fromkeys(range(PARTITIONS), each)


@pytest.mark.expects_log(": lost ", "the group's coordinator is moving")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("strategy", [pytest.param("range", marks=pytest.mark.slow), *WAYS[1:]])
def test_a_group_outlives_its_broker(tmp_path: Path, wait_for, strategy):
    each, log = 1_500, Log()
    config = {"group.min.session.timeout.ms": 500, **QUICK_GROUPS, "group.consumer.session.timeout.ms": 2_000}
    with BrokerProcess(tmp_path / "data", config) as broker, ActorSystem("g") as system:
        create_topic(broker.bootstrap_servers, "t", PARTITIONS, {})
        settings = ConsumerSettings(
            broker.bootstrap_servers,
            "g",
            "earliest",
            commit_interval_ms=50,
            commit_timeout_ms=60_000,
            properties={"session.timeout.ms": 2_000, "reconnect.backoff.max.ms": 200},
        )
        source = Consumer.source(member_settings(settings, strategy, 200), Subscriptions.topics("t"))
        graph = source.to_mat(Sink.foreach(log.store), DrainingControl.create)
        members = [graph.run(system) for _ in range(3)]
        wait_for(lambda: [len(m.snapshot().get("partitions", {})) for m in members] == [2, 2, 2])
        load = Load(broker.bootstrap_servers, "t", each)
        for _ in range(2):
            before = len(log.done)
            wait_for(lambda before=before: len(log.done) > before + 100)
            broker.kill()
            broker.start()
        load.join()
        wait_for(lambda: len(set(log.done)) == each * PARTITIONS, 90)
        with MetadataClient(settings) as client:
            # sessions of two seconds may end on a loaded machine: then what was done and not committed is read once more
            wait_for(lambda: set(client.committed([("t", p) for p in range(PARTITIONS)]).values()) == {each}, 90)
        assert not any(member.stream_completion.done() for member in members)
        for member in members:
            member.drain_and_shutdown(timeout=60)


def test_a_stop_without_a_broker_ends_at_its_deadline_and_names_what_is_not_committed(tmp_path: Path, wait_for):
    log = Log()
    with BrokerProcess(tmp_path / "data") as broker, ActorSystem("g") as system:
        create_topic(broker.bootstrap_servers, "t", PARTITIONS, {})
        Load(broker.bootstrap_servers, "t", 10).join()
        settings = ConsumerSettings(
            broker.bootstrap_servers,
            "g",
            "earliest",
            commit_interval_ms=600_000,
            close_timeout_ms=300,
            properties={"reconnect.backoff.max.ms": 200},
        )
        source = Consumer.source(settings, Subscriptions.topics("t"))
        control = source.to_mat(Sink.foreach(log.store), Keep.left).run(system)
        wait_for(lambda: len(log.done) == 10 * PARTITIONS)
        broker.kill()
        # the commit would wait for a coordinator until the group has forgotten the member, and a stop with it
        error = control.shutdown().exception(30)
        assert isinstance(error, CommitTimeout)
        assert "t-0@10" in str(error)
        broker.start()
        with MetadataClient(settings) as client:  # once there is a broker, what was on its way arrives
            wait_for(lambda: set(client.committed([("t", p) for p in range(PARTITIONS)]).values()) == {10})
