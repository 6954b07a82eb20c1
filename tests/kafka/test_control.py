"""Controls: what they show, how they end a stream, and that they stay valid."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from streamactors import Keep, RestartSettings, RestartSource, Sink, Source
from streamactors.actors.futures import StreamFuture
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, DrainingControl, NoopControl, RestartControl, Subscriptions
from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.messages import PausePartitions, ResumePartitions

QUICK = RestartSettings("1ms", "2ms")
UNHURRIED = 300_000
"""As revoke_timeout_ms: longer than a test. What a failed instance has in flight never ends, so nobody may wait for it."""


def test_a_snapshot_shows_each_partition_from_buffer_to_lag(settings, topic_with, system, wait_for, committed):
    topic = topic_with("shown", [b"x"] * 200, 2)
    go = threading.Event()

    def store(record):
        if record.offset == 30:
            go.wait(60)

    control = (
        Consumer.source(settings, Subscriptions.topics(topic))
        .max_chunk(10)
        .to_mat(Sink.foreach(store), DrainingControl.create)
        .run(system)
    )

    def partitions():
        return control.snapshot()["partitions"].values()

    wait_for(lambda: any(p["committed"] for p in partitions()), 60)
    for p in partitions():
        assert p["assigned"]
        assert p["demand"] >= 0
        if p["position"] is not None and p["lag"] is not None:
            assert 100 - p["position"] <= p["lag"] == 100 - (p["done"] or 0)
        if p["committed"] is not None:
            assert p["committed"] <= p["done"] <= p["position"]
            assert p["in_flight"] >= 0
    go.set()
    wait_for(lambda: [(p["lag"], p["in_flight"]) for p in partitions()] == [(0, 0)] * 2, 60)
    assert [(p["done"], p["committed"]) for p in partitions()] != []
    names = set(control.snapshot())
    control.drain_and_shutdown(timeout=60)
    assert committed(topic, 2) == {0: 100, 1: 100}
    last = control.snapshot()
    assert set(last) == names  # as long as it ran, and after it
    assert (last["partitions"], last["demand"], last["records"], last["delivered"]) == ({}, 0, 200, 200)
    assert control.metrics()["delivered"] == 200


def test_a_snapshot_has_the_same_keys_before_the_source_runs_while_it_closes_and_after_its_failure(
    settings, topic_with, system
):
    names = set(NoopControl().snapshot())
    assert {"partitions", "demand", "records", "refetched_bytes"} <= names
    assert set(RestartControl().snapshot()) == names | {"restarts"}
    topic = topic_with("failing", [b"x"] * 10)
    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic)).map(int).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    while not control.is_shutdown.done():
        assert set(control.snapshot()) == names
    assert isinstance(done.exception(60), TypeError)
    assert set(control.snapshot()) == names
    assert control.snapshot()["records"] == 10


def test_a_snapshot_says_who_paused_a_partition(settings, topic_with, system, wait_for):
    topic = topic_with("who", [bytes(1_000)] * 2_000, 2)
    tight = replace(settings, high_bytes=100_000, low_bytes=50_000, pause_dwell_ms=0)
    go = threading.Event()
    control = (
        Consumer.source(tight, Subscriptions.topics(topic))
        .max_chunk(1)
        .to_mat(Sink.foreach(lambda _: go.wait(60)), DrainingControl.create)
        .run(system)
    )
    control.pause((topic, 1))

    def paused_by():
        return {name[-1]: p["paused_by"] for name, p in control.snapshot()["partitions"].items()}

    wait_for(lambda: paused_by() == {"0": "back-pressure", "1": "user"}, 60)
    control.resume((topic, 1))
    go.set()
    wait_for(lambda: paused_by() == {"0": None, "1": None}, 60)
    control.drain_and_shutdown(timeout=60)


def test_what_pausing_threw_away_is_counted(settings, topic_with, system, wait_for):
    topic = topic_with("refetched", [bytes(500)] * 20_000)
    tight = replace(settings, pause_dwell_ms=0, max_poll_records=50).with_property("statistics.interval.ms", 50)
    go = threading.Event()
    control = (
        Consumer.plain_source(tight, Subscriptions.topics(topic))
        .max_chunk(1)
        .to_mat(Sink.foreach(lambda _: go.wait(60)), DrainingControl.create)
        .run(system)
    )
    wait_for(lambda: control.metrics().get("records", 0) > 0, 60)
    assert control.metrics()["refetched_bytes"] == 0
    control.pause((topic, 0))
    wait_for(lambda: control.metrics()["pauses"] == 1, 60)
    control.resume((topic, 0))
    go.set()
    wait_for(lambda: control.snapshot()["partitions"][f"{topic}-0"]["position"] == 20_000, 60)
    wait_for(lambda: control.metrics()["refetched_bytes"] > 10_000, 60)
    control.drain_and_shutdown(timeout=60)


def test_50_stop_can_be_said_twice_and_before_the_stream_runs(settings, topic_with, system):
    topic = topic_with("twice", [b"x"] * 10)
    control, done = Consumer.source(settings, Subscriptions.topics(topic)).to_mat(Sink.to_list(), Keep.both).run(system)
    control.stop()
    control.stop()
    assert len(done.result(60)) <= 10
    assert control.shutdown().result(60) is None


def test_what_is_said_before_and_while_the_source_starts_keeps_its_order():
    control, told = Control(), []
    control.pause(("t", 0))
    control.resume(("t", 0))
    stopped = []
    control.stop()
    control.attach(told.append, lambda: stopped.append(True))
    control.pause(("t", 1))
    assert [type(message) for message in told] == [PausePartitions, ResumePartitions, PausePartitions]
    assert stopped == [True]


def test_50_draining_raises_the_streams_error_even_if_the_consumer_ended_badly_too():
    control = Control()
    control.attach(lambda _: None, lambda: None)
    completion = StreamFuture("stream")
    completion.try_fail(KeyError("the stream's"))
    control.is_shutdown.try_fail(ValueError("the consumer's"))
    with pytest.raises(KeyError, match="the stream's"):
        control.drain_and_shutdown(completion, timeout=1)
    ended = StreamFuture("stream")
    ended.try_complete(5)
    with pytest.raises(ValueError, match="the consumer's"):
        control.drain_and_shutdown(ended, timeout=1)


def test_50_draining_gives_up_at_its_timeout():
    control = Control()
    control.attach(lambda _: None, lambda: None)
    with pytest.raises(TimeoutError):
        control.drain_and_shutdown(StreamFuture("stream"), timeout=0.01)


def test_a_draining_control_of_what_is_none_says_what_it_combines(system):
    with pytest.raises(
        BuildError, match=r"the control of a Consumer source with the future of a sink, got .* and StreamFuture"
    ):
        Source.single(1).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    with pytest.raises(BuildError, match="got Control and int"):
        DrainingControl.create(Control(), 5)


def test_a_draining_control_takes_a_handle_with_a_future_of_its_end():
    handle = SimpleNamespace(completion=StreamFuture("query"))
    control = DrainingControl.create(Control(), handle)
    handle.completion.try_complete(5)
    assert control.stream_completion.result(0) == 5


def test_a_control_of_nothing_does_nothing():
    control = NoopControl()
    control.stop()
    control.pause(("t", 0))
    control.resume(("t", 0))
    assert control.shutdown().result(1) is None
    assert control.snapshot()["partitions"] == {}
    assert control.drain_and_shutdown(timeout=1) is None


@pytest.mark.expects_log("restart_source: failed")
def test_one_control_follows_every_instance_of_a_restarted_source(settings, topic_with, system, committed, wait_for):
    topic = topic_with("restarted", [b"%d" % i for i in range(60)])
    control, lock, seen, failures = RestartControl(), threading.Lock(), [], [20, 40]
    patient = replace(settings, revoke_timeout_ms=UNHURRIED)

    def instance():
        def fails_at(record):
            if failures and record.offset == failures[0]:
                failures.pop(0)
                raise ConnectionError("gone")
            return record

        return control.follow(Consumer.source(patient, Subscriptions.topics(topic)).map(fails_at))

    def store(record):
        with lock:
            seen.append(record.offset)

    done = RestartSource.on_failures_with_backoff(QUICK, instance).run_with(Sink.foreach(store), system)
    wait_for(lambda: set(seen) == set(range(60)), 60)
    assert control.snapshot()["restarts"] == 2
    assert list(control.snapshot()["partitions"]) == [f"{topic}-0"]
    control.drain_and_shutdown(done, timeout=60)
    assert committed(topic) == {0: 60}


@pytest.mark.expects_log("restart_source: failed")
def test_a_pause_outlives_a_restart_and_stop_ends_the_restarts(settings, topic_with, system, wait_for):
    topic = topic_with("outlives", [b"%d" % i for i in range(40)], 2)
    control, seen, failed = RestartControl(), [], []
    patient = replace(settings, revoke_timeout_ms=UNHURRIED)
    control.pause((topic, 1))

    def instance():
        def fails_once(record):
            if not failed:
                failed.append(True)
                raise ConnectionError("gone")
            return record

        return control.follow(Consumer.source(patient, Subscriptions.topics(topic)).map(fails_once))

    done = RestartSource.with_backoff(QUICK, instance).run_with(
        Sink.foreach(lambda record: seen.append((record.partition, record.offset))), system
    )
    wait_for(lambda: {(0, offset) for offset in range(20)} <= set(seen), 60)
    assert all(partition == 0 for partition, _ in seen)
    control.resume((topic, 1))
    wait_for(lambda: len(set(seen)) == 40, 60)
    control.stop()
    done.result(60)
    control.is_shutdown.result(60)


def test_pause_and_resume_take_pairs_and_say_so():
    control = Control()
    for wrong in ("flights", ("flights",), ("flights", 0, 1)):
        with pytest.raises(BuildError, match=r"take partitions as \(topic, number\)"):
            control.pause(wrong)
        with pytest.raises(BuildError, match=r"take partitions as \(topic, number\)"):
            control.resume(wrong)
