"""What a log may look like and become: offsets that are missing, records deleted under a reader, partitions and topics added while it runs."""

from __future__ import annotations

import random
import threading

import pytest
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import Committer, CommitterSettings, Consumer, Subscriptions

SMALL = CommitterSettings(max_batch=3, max_interval_ms=20)


def write_with_gaps(cluster, topic, transactions):
    """Write two records per transaction, every third one aborted; return the offsets that a reader of committed records sees."""
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(10)
    visible, offset = [], 0
    for n in range(transactions):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic, b"%d" % n)
        producer.flush(10)
        if n % 3 == 1:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
            visible += [offset, offset + 1]
        offset += 3
    return visible, offset


@pytest.mark.parametrize("way", ["marks", "offsets", "offsets out of order", "one by one"])
def test_K_11_gaps_in_the_offsets_hold_nothing_back(cluster, settings, system, topic_with, committed, way):
    topic = topic_with(f"gaps-{way.replace(' ', '-')}", [])
    visible, end = write_with_gaps(cluster, topic, 9)
    seen = []
    if way == "marks":
        source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
        graph = source.to_mat(Sink.foreach(lambda r: seen.append(r.offset)), Keep.both)
    else:
        source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        pause = threading.Event()

        def store(m):
            if way == "offsets out of order":
                pause.wait(random.Random(m.record.offset).random() / 100)
            seen.append(m.record.offset)
            return m

        stored = source.map_async_unordered(4, store)
        if way == "one by one":
            stored = stored.map_async(1, lambda m: m.offset.commit())
            graph = stored.to_mat(Sink.ignore(), Keep.both)
        else:
            graph = stored.to_mat(Committer.sink(SMALL, offset=lambda m: m.offset), Keep.both)
    control, done = graph.run(system)
    done.result(30)
    control.is_shutdown.result(30)
    assert sorted(seen) == visible
    last = visible[-1] + 1
    assert committed(topic)[0] in ((last,) if way == "one by one" else (end,))


@pytest.mark.expects_log("does not exist: its record was deleted")
def test_records_deleted_under_a_slow_reader_are_passed_over_and_the_rest_is_committed(
    cluster, settings, system, topic_with, committed, wait_for
):
    topic = topic_with("deleted", [b"x" * 1_000] * 20_000)
    seen, reached, go = [], threading.Event(), threading.Event()

    def store(record):
        seen.append(record.offset)
        if len(seen) == 10:
            reached.set()
            go.wait(30)

    source = Consumer.source(settings.with_property("queued.min.messages", 10), Subscriptions.topics(topic))
    control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
    assert reached.wait(30)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_records([TopicPartition(topic, 0, 19_990)])[TopicPartition(topic, 0)].result(30)
    go.set()
    wait_for(lambda: seen[-1] == 19_999)
    wait_for(lambda: committed(topic) == {0: 20_000})
    assert seen == sorted(set(seen)), "nothing twice, nothing out of order"
    assert not done.done()
    control.shutdown().result(30)


def test_partitions_added_while_it_runs_are_read(cluster, settings, system, topic_with, committed, wait_for):
    topic = topic_with("grows", [b"x"])
    seen = []
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 200)
    source = Consumer.source(quick, Subscriptions.topics(topic))
    control = source.to_mat(Sink.foreach(lambda r: seen.append(r.partition)), Keep.left).run(system)
    wait_for(lambda: seen == [0])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    wait_for(lambda: len(control.snapshot()["partitions"]) == 3)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in (1, 2):
        producer.produce(topic, b"y", partition=partition)
    producer.flush(10)
    wait_for(lambda: sorted(seen) == [0, 1, 2])
    control.shutdown().result(30)
    assert committed(topic, 3) == {0: 1, 1: 1, 2: 1}


def test_topics_that_match_a_pattern_and_come_later_are_read(cluster, settings, system, topic_with, wait_for):
    topic_with("fruit-apple", [b"apple"])
    seen = []
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 200)
    source = Consumer.source(quick, Subscriptions.topic_pattern("fruit-.*"))
    control = source.to_mat(Sink.foreach(lambda r: seen.append(r.value)), Keep.left).run(system)
    wait_for(lambda: seen == [b"apple"])
    topic_with("vegetable-pea", [b"pea"])
    topic_with("fruit-pear", [b"pear"])
    wait_for(lambda: b"pear" in seen)
    control.shutdown().result(30)
    assert b"pea" not in seen


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_at_most_once_means_that_nothing_comes_twice_however_it_is_ended(cluster, settings, topic_with, seed):
    topic = topic_with(f"most-{seed}", [b"%d" % i for i in range(600)], 3)
    dice, seen = random.Random(seed), []
    source = Consumer.at_most_once_source(settings, Subscriptions.topics(topic), until="end").max_chunk(7)
    for number in range(7):
        left, reached, end = dice.randint(1, 150), threading.Event(), dice.choice(["abrupt", "raises"])

        def store(record, last=len(seen) + left, end=end, reached=reached, number=number):
            seen.append((record.partition, record.offset))
            if number < 6 and len(seen) == last:
                reached.set()
                if end == "raises":
                    raise ValueError("told to")

        with ActorSystem("most") as system:
            control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
            done.add_done_callback(lambda _, reached=reached: reached.set())
            assert reached.wait(60)
            if end == "abrupt" and number < 6:
                system.shutdown(10)
            done.exception(60)
            control.is_shutdown.exception(60)
    assert len(seen) == len(set(seen))
    assert len(seen) > 300, "at most a chunk is lost at each end"
