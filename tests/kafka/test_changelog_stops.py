"""A stream that is ended before its windows: what came through is committed with its state, and the next run goes on behind it."""

from __future__ import annotations

import threading

import msgpack
import pytest

from streamactors import ActorSystem, Keep, KillSwitches, Sink
from streamactors.kafka import Consumer, ConsumerSettings, MetadataClient, ProducerSettings, Subscriptions
from tests.kafka._windows import CLOSED, SECOND, finals, produce, read, rows, written

STOP_AT = 700


def taking(source):
    return source.take(STOP_AT)


def shut_down(source):
    switch = KillSwitches.shared("stop")

    def stop_there(record):
        if record.context.offset == STOP_AT:
            switch.shutdown()
        return record

    return source.map(stop_there).via(switch.flow())


def aborted(source):
    switch = KillSwitches.shared("abort")

    def stop_there(record):
        if record.context.offset == STOP_AT:
            switch.abort(ValueError("no more"))
        return record

    return source.map(stop_there).via(switch.flow())


@pytest.mark.parametrize(
    "end_early", [taking, pytest.param(shut_down, marks=pytest.mark.slow), aborted], ids=lambda fn: fn.__name__
)
def test_a_stream_ended_before_its_windows_is_gone_on_with(cluster, committed_of, read_all, end_early):
    name = f"early-{end_early.__name__.replace('_', '-')}"
    given = list(rows(11, 2_000, 1))
    produce(cluster, name, given, 1)
    cluster.create_topic(f"{name}-out", partitions=1)
    settings = ConsumerSettings(cluster.bootstrap_servers, name, "earliest", commit_interval_ms=20)
    producing = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=10)

    def run(end):
        source = end(Consumer.records(settings, Subscriptions.topics(name), key="string", until="end"))
        counted = source.group_by_key().windowed_by(SECOND).count(name="seconds").suppress(CLOSED).to_stream()
        with ActorSystem(name) as system:
            control, done = written(counted, f"{name}-out", producing).run(system)
            error = done.exception(60)
            control.is_shutdown.exception(60)
        return error

    error = run(end_early)
    if end_early is aborted:
        assert "no more" in str(error)
    else:
        assert error is None
        at = committed_of(name, name)
        assert at == STOP_AT if end_early is taking else at >= 0
        closed = read(read_all(f"{name}-out"))
        assert set(closed) < set(finals(given, 1)[0]), "a stop closes nothing"
    assert run(lambda source: source) is None
    assert read(read_all(f"{name}-out")) == finals(given, 1)[0]


def test_K_17_the_state_is_not_ahead_of_results_that_a_sink_has_not_done(cluster, system, read_all):
    """A window closed -> its result waits at a slow sink -> the changelog says that it is closed -> the sink fails: its rows are late
    for the next run, and its result never comes."""
    given = [(0, "a", 5_000 + i) for i in range(10)] + [(0, "a", 60_000)]
    produce(cluster, "ahead", given, 1)
    settings = ConsumerSettings(cluster.bootstrap_servers, "ahead", "earliest", commit_interval_ms=20)
    reached, go, found = threading.Event(), threading.Event(), []

    def counted(until):
        source = Consumer.records(settings, Subscriptions.topics("ahead"), key="string", until=until)
        return source.group_by_key().windowed_by(SECOND).count(name="seconds").suppress(CLOSED).to_stream()

    def fail_late(row):
        reached.set()
        go.wait(60)
        raise RuntimeError("a failure")

    control, done = counted(None).async_boundary().to_mat(Sink.foreach(fail_late), Keep.both).run(system)
    assert reached.wait(60)
    for _ in range(5):  # some commit intervals
        facts = [msgpack.unpackb(m.value()) for m in read_all("ahead-seconds-store-changelog") if m.key() == b"\0meta"]
        assert [fact[-1]["stream_time"] for fact in facts if fact[-1]["stream_time"] >= 6_000] == []
    go.set()
    assert "a failure" in str(done.exception(30))
    control.is_shutdown.exception(30)
    with ActorSystem("again") as again:
        control, done = counted("end").to_mat(Sink.foreach(found.append), Keep.both).run(again)
        done.result(60)
        control.is_shutdown.result(30)
    assert [(row.start, row.value) for row in found] == [(5_000, 10), (60_000, 1)]


@pytest.fixture
def committed_of(cluster):
    def look(group, topic):
        with MetadataClient(ConsumerSettings(cluster.bootstrap_servers, group)) as client:
            return client.committed([(topic, 0)]).get((topic, 0), -1)

    return look
