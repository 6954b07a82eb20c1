"""A source per partition that fails and begins again, or is copied in transactions of its own: nothing is lost."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from streamactors import Flow, Keep, RestartSettings, RestartSource, Sink
from streamactors.kafka import (
    Consumer,
    ProducerRecord,
    RestartControl,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.consumer import StreamConsumer
from tests.kafka._partitioned import merged


def test_42_what_failed_comes_again_when_the_stream_is_restarted(settings, topic_with, system, committed):
    topic = topic_with("again", [b"%d" % i for i in range(200)], 2)
    seen = []

    def run(bad):
        def store(record):
            if (record.partition, record.offset) == bad:
                raise KeyError("the store is gone")
            seen.append((record.partition, record.offset))
            return record

        source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
        graph = merged(source, through=Flow.map(store)).to_mat(Sink.ignore(), Keep.both)
        control, done = graph.run(system)
        error = done.exception(60)
        control.is_shutdown.exception(60)
        return error

    assert isinstance(run((1, 60)), KeyError)
    assert committed(topic, 2)[1] <= 60
    assert run(None) is None
    assert set(seen) == {(partition, offset) for partition in (0, 1) for offset in range(100)}


@pytest.mark.expects_log("neither read nor committed")
@pytest.mark.parametrize("inside", [True, False])
def test_a_partition_whose_stream_has_failed_is_not_given_to_another_stream(
    settings, topic_with, system, committed, wait_for, caplog, inside
):
    """A map that runs inside the source of the partition fails, or one downstream -> what was not taken went to a second stream, and its
    commits skipped the record that had failed."""
    topic = topic_with(f"apart-{inside}", [b"%d" % i for i in range(200)], 1)
    given, seen = [], []

    def store(record):
        if record.offset == 60:
            raise KeyError("the store is gone")
        seen.append(record.offset)

    def begin(pair):
        through = Flow.map(store) if inside else Flow.identity().async_boundary().map(store)
        done = pair[1].via(through).max_chunk(8).run_with(Sink.ignore(), system)
        given.append(done)
        return done

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    control, done = source.map(begin).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: "neither read nor committed" in caplog.text or len(given) > 1)
    assert isinstance(given[0].exception(60), KeyError)
    control.shutdown()
    done.result(60)
    control.is_shutdown.result(60)
    assert len(given) == 1
    assert seen == list(range(60))
    assert committed(topic, 1)[0] <= 60


def test_a_bounded_read_fails_with_the_stream_of_a_partition_that_runs_apart(settings, topic_with, system, committed):
    """The read waited without end for a partition that nobody read any more."""
    topic = topic_with("apart-to-the-end", [b"%d" % i for i in range(200)], 2)
    apart = []

    def store(record):
        if (record.partition, record.offset) == (1, 60):
            raise KeyError("the store is gone")
        return record

    def begin(pair):
        apart.append(pair[1].map(store).run_with(Sink.ignore(), system))

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    control, done = source.map(begin).to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(done.exception(60), KeyError)
    assert KeyError in {type(each.exception(60)) for each in apart}
    assert control.is_shutdown.exception(60) is None
    assert committed(topic, 2)[1] <= 60


@pytest.mark.expects_log("restart_source: failed")
@pytest.mark.expects_log("neither read nor committed")
def test_K_20_restarted_partitioned_sources_lose_nothing(settings, topic_with, system, committed, wait_for):
    topic = topic_with("restarting", [b"%d" % i for i in range(600)], 3)
    control, lock, seen, failures = RestartControl(), threading.Lock(), set(), [50, 120, 170]

    def part(pair):
        def fails_at(record):
            with lock:
                if failures and record.offset == failures[0]:
                    raise ConnectionError(f"gone at {failures.pop(0)}")
            return record

        return pair[1].map(fails_at).async_boundary()

    def instance():
        source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
        return control.follow(source.flat_map_merge(8, part))

    def store(record):
        with lock:
            seen.add((record.partition, record.offset))

    restarts = RestartSettings("1ms", "2ms")
    done = RestartSource.on_failures_with_backoff(restarts, instance).run_with(Sink.foreach(store), system)
    wait_for(lambda: len(seen) == 600, 90)
    assert not failures
    assert 1 <= control.snapshot()["restarts"] <= 3, "two partitions may have failed one instance"
    wait_for(lambda: committed(topic, 3) == dict.fromkeys(range(3), 200), 60)
    control.drain_and_shutdown(done, timeout=60)


@pytest.mark.expects_log("restart_source: failed")
def test_a_partition_copied_in_transactions_of_its_own_commits_positions_and_results_together(
    cluster, settings, producer_settings, topic_with, system, committed, read_all, wait_for, monkeypatch
):
    topic = topic_with("exactly", [b"%d" % i for i in range(600)], 2)
    cluster.create_topic("exactly-out", partitions=2)
    by_the_consumer = []
    monkeypatch.setattr(StreamConsumer, "commit", lambda self, offsets: by_the_consumer.append(offsets) or True)
    failures = [100, 200]

    def copied(pair):
        partition, records = pair

        def copy(record):
            if record.partition == 1 and failures and record.offset == failures[0]:
                raise ConnectionError(f"gone at {failures.pop(0)}")
            return ProducerRecord("exactly-out", record.value, partition=record.partition)

        own = replace(producer_settings, commit_interval_ms=20).with_transactional_id(f"copy {partition}")
        return records.map(copy).run_with(Transactional.sink(own), system)

    control = RestartControl()
    done = RestartSource.on_failures_with_backoff(
        RestartSettings("1ms", "2ms"),
        lambda: control.follow(
            Consumer.partitioned_source(settings, Subscriptions.topics(topic)).map_async_unordered(4, copied)
        ),
    ).run_with(Sink.ignore(), system)
    wait_for(lambda: committed(topic, 2) == {0: 300, 1: 300}, 90)
    control.drain_and_shutdown(done, timeout=60)
    assert by_the_consumer == [], "the transactions have committed everything"
    found = [(message.partition(), int(message.value())) for message in read_all("exactly-out", 2)]
    assert found == [(0, n) for n in range(0, 600, 2)] + [(1, n) for n in range(1, 600, 2)]
