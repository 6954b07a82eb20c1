"""Transactional sources, sinks and flows: exactly once, on the real broker."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from streamactors import Broadcast, Flow, GraphDSL, Keep, KillSwitches, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.controls.supervised import SupervisedRun
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.state.repartition import ends_of
from streamactors.kafka.subscriptions import TopicPartition


@pytest.fixture
def transactional(cluster, request):
    return ProducerSettings(
        cluster.bootstrap_servers,
        transactional_id=request.node.name,
        commit_interval_ms=20,
        preflight_timeout_ms=30_000,  # the machine may be busy
    )


def numbers(n):
    return [b"%d" % i for i in range(n)]


def values(messages):
    return [int(m.value()) for m in messages]


def to(topic):
    return lambda record: ProducerRecord(topic, record.value, partition=record.partition)


def test_a_copy_commits_records_and_positions_together(
    cluster, settings, transactional, system, topic_with, committed, read_all
):
    topic = topic_with("in", numbers(2_000), 2)
    cluster.create_topic("out", partitions=2)
    control, done = (
        Transactional.source(settings, Subscriptions.topics(topic), until="end")
        .map(to("out"))
        .to_mat(Transactional.sink(transactional), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert values(read_all("out", 2)) == [*range(0, 2_000, 2), *range(1, 2_000, 2)]
    assert committed(topic, 2) == {0: 1_000, 1: 1_000}


def test_a_failure_aborts_what_is_not_committed(
    cluster, settings, transactional, system, topic_with, committed, read_all
):
    topic = topic_with("in-fail", numbers(500))
    cluster.create_topic("out-fail", partitions=1)
    copied = Transactional.source(settings, Subscriptions.topics(topic), until="end")

    def fails(record):
        if record.offset == 300:
            raise ValueError("300")
        return to("out-fail")(record)

    control, done = copied.map(fails).to_mat(Transactional.sink(transactional), Keep.both).run(system)
    assert isinstance(done.exception(30), ValueError)
    control.is_shutdown.exception(30)
    position = max(committed(topic)[0], 0)
    assert values(read_all("out-fail")) == list(range(position)), "what is visible is what is committed"
    copied.map(to("out-fail")).run_with(Transactional.sink(transactional), system).result(30)
    assert values(read_all("out-fail")) == list(range(500))


def test_a_flow_emits_results_in_order_and_ends_with_the_commit(cluster, transactional, system, read_all):
    cluster.create_topic("flow", partitions=1)
    envelopes = [ProducerMessage.message(ProducerRecord("flow", b"%d" % i), i) for i in range(500)]
    results = Source.from_iterable(envelopes).via(Transactional.flow(transactional)).run_with(Sink.to_list(), system)
    assert [result.pass_through for result in results.result(30)] == list(range(500))
    assert values(read_all("flow")) == list(range(500))


def test_K_16_two_sinks_of_a_run_commit_together(
    cluster, settings, transactional, system, topic_with, committed, read_all, wait_for
):
    topic = topic_with("in-two", numbers(1_000), 2)
    cluster.create_topic("even", partitions=2)
    cluster.create_topic("all", partitions=2)
    sink = Transactional.sink(transactional)

    def fails(record):
        if record.offset == 350:
            raise ValueError("350")
        return record

    def graph(check):
        return (
            Transactional.source(settings, Subscriptions.topics(topic), until="end")
            .map(check)
            .also_to(_evens("even", sink))
            .map(to("all"))
            .to_mat(sink, Keep.both)
        )

    control, done = graph(fails).run(system)
    assert isinstance(done.exception(30), ValueError)
    control.is_shutdown.exception(30)
    positions = committed(topic, 2)
    assert len(read_all("all", 2)) == sum(max(p, 0) for p in positions.values())
    assert len(read_all("even", 2)) == max(positions[0], 0)
    control, done = graph(lambda record: record).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    # A transaction is committed before its markers are in every partition, and readers see it with the markers.
    wait_for(lambda: len(read_all("all", 2)) >= 1_000 and len(read_all("even", 2)) >= 500)
    assert sorted(values(read_all("all", 2))) == list(range(1_000))
    assert values(read_all("even", 2)) == list(range(0, 1_000, 2))


def test_K_16_a_sink_that_has_ended_is_committed_and_the_others_go_on(
    cluster, settings, transactional, system, topic_with, committed, wait_for, read_all
):
    topic = topic_with("in-some", numbers(10))
    cluster.create_topic("few", partitions=1)
    cluster.create_topic("rest", partitions=1)
    sink = Transactional.sink(transactional)
    with GraphDSL() as g:
        source = g.add(Transactional.source(settings, Subscriptions.topics(topic)), keep=True)
        fan = g.add(Broadcast(2))
        source >> fan
        fan >> Flow.take(3).map(to("few")) >> g.add(sink, keep=True)
        fan >> Flow.map(to("rest")) >> g.add(sink, keep=True)
    control, few, done = g.to_runnable().run(system)
    wait_for(lambda: values(read_all("rest")) == list(range(10)))
    few.result(30)
    assert values(read_all("few")) == [0, 1, 2]
    topic_more(cluster, topic, b"10")
    wait_for(lambda: values(read_all("rest")) == list(range(11)))
    wait_for(lambda: committed(topic) == {0: 11})
    control.stop()
    done.result(30)
    control.is_shutdown.result(30)


def test_what_completes_is_committed_up_to_its_end(
    cluster, settings, transactional, system, topic_with, committed, read_all
):
    topic = topic_with("in-take", numbers(100))
    cluster.create_topic("out-take", partitions=1)
    source = Transactional.source(settings, Subscriptions.topics(topic)).take(33).map(to("out-take"))
    control, done = source.to_mat(Transactional.sink(transactional), Keep.both).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    assert values(read_all("out-take")) == list(range(33))
    assert committed(topic) == {0: 33}


@pytest.mark.parametrize("fails", [False, True])
def test_a_kill_switch_commits_what_has_passed_and_an_abort_takes_it_back(
    cluster, settings, transactional, system, topic_with, committed, wait_for, read_all, fails
):
    name = f"switched-{fails}"
    topic, rare = topic_with(f"in-{name}", numbers(100)), replace(transactional, commit_interval_ms=600_000)
    cluster.create_topic(name, partitions=1)
    source = Transactional.source(settings, Subscriptions.topics(topic)).via_mat(KillSwitches.single(), Keep.both)
    (control, switch), done = source.map(to(name)).to_mat(Transactional.sink(rare), Keep.both).run(system)
    wait_for(lambda: len(read_all(name, isolation="read_uncommitted")) == 100)
    assert read_all(name) == [], "no commit is due yet"
    if fails:
        switch.abort(ValueError("enough"))
        assert isinstance(done.exception(30), ValueError)
    else:
        switch.shutdown()
        done.result(30)
    control.is_shutdown.exception(30)
    assert values(read_all(name)) == ([] if fails else list(range(100)))
    assert committed(topic) == {0: -1001 if fails else 100}


def test_what_comes_to_a_sink_when_the_transaction_is_aborted_does_not_hide_why(
    cluster, settings, transactional, system, topic_with, wait_for, read_all
):
    """A chunk is on its way to a sink -> another stage fails, the transaction is aborted -> librdkafka refuses the records."""
    topic, rare = topic_with("in-hidden", numbers(1)), replace(transactional, commit_interval_ms=600_000)
    for name in ("hidden", "failing"):
        cluster.create_topic(name, partitions=1)
    sink, switch, go = Transactional.sink(rare), KillSwitches.shared("fail"), threading.Event()

    class Slow(tuple):
        def __iter__(self):
            go.wait(60)
            return super().__iter__()

    def slow(record):
        return ProducerRecord("hidden", record.value, headers=Slow([("slow", b"1")]))

    source = Transactional.source(settings, Subscriptions.topics(topic))
    source = source.also_to(Flow.map(to("failing")).via(switch.flow()).to(sink))
    control, done = source.async_boundary().map(slow).to_mat(sink, Keep.both).run(system)
    wait_for(lambda: len(read_all("failing", isolation="read_uncommitted")) == 1)
    switch.abort(ValueError("the cause"))
    wait_for(
        lambda: ends_of(settings, [TopicPartition("failing", 0)])["failing", 0] == 2, 60
    )  # behind the abort's marker
    go.set()
    assert "the cause" in str(done.exception(60))
    control.is_shutdown.exception(30)
    assert read_all("hidden") == []


def _evens(topic, sink):
    from streamactors import Flow

    return Flow.filter(lambda record: int(record.value) % 2 == 0).map(to(topic)).to(sink)


def test_K_14_a_cut_waits_for_the_other_sinks_of_the_run(
    cluster, settings, transactional, system, topic_with, committed, wait_for, read_all
):
    import threading

    topic = topic_with("in-side", numbers(100))
    cluster.create_topic("out-side", partitions=1)
    go, stored = threading.Event(), []

    def store(record):
        if record.offset == 0:
            go.wait(30)
        stored.append(record.offset)

    control, done = (
        Transactional.source(settings, Subscriptions.topics(topic), until="end")
        .also_to(_own(Sink.foreach(store)))
        .map(to("out-side"))
        .to_mat(Transactional.sink(transactional), Keep.both)
        .run(system)
    )
    wait_for(lambda: len(read_all("out-side", isolation="read_uncommitted")) > 0)
    assert committed(topic) == {0: -1001}
    assert read_all("out-side") == []
    go.set()
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 100}
    assert stored == list(range(100))


def _own(sink):
    from streamactors import Flow

    return Flow.identity().async_boundary().to(sink)


def test_members_of_one_group_of_processes_do_not_fence_each_other(
    cluster, settings, transactional, topic_with, read_all, wait_for
):
    topic = topic_with("in-members", numbers(10))
    cluster.create_topic("out-members", partitions=1)
    copy = (
        Transactional.source(settings, Subscriptions.topics(topic))
        .map(to("out-members"))
        .to_mat(Transactional.sink(replace(transactional, on_fenced="fail")), Keep.both)
    )
    with SupervisedRun(copy, member="0") as first:
        wait_for(lambda: len(read_all("out-members")) == 10)
        one = Source.from_iterable([ProducerRecord("out-members", b"10")])
        with SupervisedRun(one.to_mat(Transactional.sink(transactional), Keep.right), member="1") as second:
            assert second.wait(20)
            assert second.error is None
        topic_more(cluster, topic, b"11")
        wait_for(lambda: len(read_all("out-members")) == 12)
        first.stop()
        assert first.wait(20)
        assert first.error is None


def test_a_second_producer_of_the_same_id_fences_the_first(
    cluster, settings, transactional, system, topic_with, wait_for, read_all
):
    topic = topic_with("in-fence", numbers(10))
    cluster.create_topic("out-fence", partitions=1)
    graph = (
        Transactional.source(settings, Subscriptions.topics(topic))
        .map(to("out-fence"))
        .to_mat(Transactional.sink(transactional), Keep.both)
    )
    _, first = graph.run(system)
    wait_for(lambda: len(read_all("out-fence")) == 10)
    Source.from_iterable([ProducerRecord("out-fence", b"10")]).run_with(
        Transactional.sink(transactional), system
    ).result(30)
    topic_more(cluster, topic, b"11")
    assert isinstance(first.exception(30), ProducerFailed)
    assert values(read_all("out-fence")) == list(range(11))


def topic_more(cluster, topic, value):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, value)
    producer.flush(10)


def test_what_cannot_be_exact_is_refused(settings, transactional, system, producer_settings):
    source = Transactional.source(settings, Subscriptions.topics("x"))
    with pytest.raises(BuildError, match="map_async for map_async_unordered"):
        source.map_async_unordered(2, lambda x: x).run_with(Transactional.sink(transactional), system)
    with pytest.raises(BuildError, match="needs a transactional_id"):
        Transactional.sink(producer_settings)
    error = source.run_with(Sink.ignore(), system).exception(30)
    assert "needs a Transactional.sink" in str(error)
    sinks = Transactional.sink(transactional), Transactional.sink(transactional.with_transactional_id("other"))
    with pytest.raises(BuildError, match="one run has one transaction"):
        Consumer.source(settings, Subscriptions.topics("x")).also_to(sinks[0]).run_with(sinks[1], system)


@pytest.mark.slow
def test_a_copy_killed_at_random_writes_everything_exactly_once_and_in_order(cluster, topic_with, read_all):
    n, topic = 3_000, topic_with("in-killed", numbers(3_000), 2)
    cluster.create_topic("out-killed", partitions=2)
    dice = random.Random(7)
    child = Path(__file__).with_name("_transactional_copy.py")
    command = [sys.executable, str(child), cluster.bootstrap_servers, topic, "out-killed"]
    kills = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lifetime = dice.randrange(100, 1_200) if kills < 3 else n + 1
        ended = False
        for count, line in enumerate(process.stdout, 1):
            ended = line.strip() == "end"
            if count == lifetime:
                process.kill()
                kills += 1
                break
        process.stdout.close()
        process.wait(30)
        if ended:
            break
    assert kills >= 2
    assert values(read_all("out-killed", 2)) == [*range(0, n, 2), *range(1, n, 2)]


def test_places_travel_as_contexts_past_what_becomes_of_the_records(
    cluster, settings, transactional, system, topic_with, committed, read_all
):
    topic = topic_with("placed", numbers(100), 2)
    cluster.create_topic("placed-out", partitions=1)
    source = Transactional.source_with_offset_context(settings, Subscriptions.topics(topic), until="end")
    kept = source.map(lambda record: int(record.value)).filter(lambda n: n % 2)
    sent = kept.map(lambda n: ProducerMessage.message(ProducerRecord("placed-out", b"%d" % n), n))
    results = sent.via(Transactional.flow_with_offset_context(transactional))
    done = results.as_source().map(lambda pair: (pair[0].pass_through, *pair[1])).run_with(Sink.to_list(), system)
    assert sorted(done.result(60)) == [(n, topic, n % 2, n // 2) for n in range(1, 100, 2)]
    assert sorted(values(read_all("placed-out"))) == list(range(1, 100, 2))
    assert committed(topic, 2) == {0: 50, 1: 50}, "what was filtered, too"


def test_a_sink_takes_records_and_envelopes_with_contexts(
    cluster, settings, transactional, system, topic_with, committed, read_all
):
    topic = topic_with("paired", numbers(50))
    cluster.create_topic("paired-out", partitions=1)
    source = Transactional.source_with_offset_context(settings, Subscriptions.topics(topic), until="end")

    def twice(record):
        out = ProducerRecord("paired-out", record.value)
        return ProducerMessage.multi([out, out]) if int(record.value) % 2 else out

    done = source.map(twice).run_with(Transactional.sink_with_offset_context(transactional), system)
    done.result(60)
    assert len(read_all("paired-out")) == 75
    assert committed(topic) == {0: 50}
