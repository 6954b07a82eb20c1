"""Consumers on the page: positions, lag and rates equal what an independent client computes."""

from __future__ import annotations

import threading
import time

import confluent_kafka as ck

from streamactors import ActorSystem, Sink
from streamactors.broker import Cluster
from streamactors.dashboard.reading.partitions import PartitionsReader
from streamactors.engine.island.run import runs_of
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

COUNT = 600


def fill(cluster: Cluster, topic: str) -> None:
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(topic, str(number), partition=number % 3)
    assert not producer.flush(20)


def test_positions_and_lag_are_what_an_independent_client_computes() -> None:
    with Cluster() as cluster, ActorSystem("lag") as system:
        cluster.create_topic("flights", 3)
        began_s = time.monotonic()
        fill(cluster, "flights")
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        source = Consumer.source(settings, Subscriptions.topics("flights"))
        taken: list[object] = []
        compared = threading.Event()

        def take(record: object) -> None:
            taken.append(record)
            if len(taken) > 60:  # the rest is in flight until the page was compared, however long that takes
                compared.wait(60)

        control = source.to(Sink.foreach(take)).named("flights to store").run(system)
        deadline = time.monotonic() + 60
        while len(taken) < 50 and time.monotonic() < deadline:
            time.sleep(0.05)
        reader = PartitionsReader()
        reader.read(time.monotonic(), runs_of(system))
        while time.monotonic() < deadline:
            time.sleep(0.5)
            before = len(taken)
            (consumer,) = reader.read(time.monotonic(), runs_of(system))["consumers"]
            after = len(taken)
            if len(consumer.partitions) == 3 and all(p.end is not None for p in consumer.partitions):
                break
        client = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "other"})
        ends = {n: client.get_watermark_offsets(ck.TopicPartition("flights", n), 10)[1] for n in range(3)}
        client.close()
        compared.set()
        control.shutdown().result(30)
    assert (consumer.graph, consumer.group) == ("flights to store", "g")
    assert {p.partition: p.end for p in consumer.partitions} == ends
    for p in consumer.partitions:
        assert p.lag == ends[p.partition] - (p.done or 0)
        assert p.lag_seconds is None or p.lag_seconds < time.monotonic() - began_s + 1, (
            "no record is older than the test"
        )
        assert p.done is None or p.done <= p.position
    done = sum(p.done or 0 for p in consumer.partitions)
    assert before - 300 <= done <= after, "a chunk of records is done at once"
    held = [p.oldest_mark for p in consumer.partitions if p.oldest_mark is not None]
    assert held
    assert {mark.sink for mark in held} == {"flights to store"}
    assert all(mark.age_ms < (time.monotonic() - began_s + 1) * 1_000 for mark in held), (
        "no mark is older than the test"
    )


def test_partitions_that_the_user_has_paused_say_so() -> None:
    with Cluster() as cluster, ActorSystem("paused") as system:
        cluster.create_topic("flights", 1)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        control = Consumer.plain_source(settings, Subscriptions.topics("flights")).to(Sink.ignore()).run(system)
        deadline = time.monotonic() + 30
        while not control.snapshot()["partitions"] and time.monotonic() < deadline:
            time.sleep(0.05)
        control.pause(("flights", 0))
        page = system.serve_dashboard()
        page.watch()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = page.state()
            if [cause["cause"] for graph in state["graphs"] for cause in graph["causes"]] == ["paused"]:
                break
            time.sleep(0.1)
        control.shutdown().result(30)
    (partition,) = state["consumers"][0]["partitions"]
    assert (partition["paused"], partition["paused_by"]) == (True, "user")
    assert [cause["cause"] for cause in state["graphs"][0]["causes"]] == ["paused"]


def test_consumers_of_other_systems_are_not_shown() -> None:
    assert PartitionsReader([]).read(0.0, []) == {"consumers": ()}
