"""The last records of a stream take longer than the closing of its consumer may: they are committed all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from streamactors import Keep, RestartSettings, RestartSource, Sink
from streamactors.kafka import Consumer, RestartControl, Subscriptions


def bounded(settings, topic, **options):
    return Consumer.source(
        replace(settings, close_timeout_ms=1, poll_interval_ms=1), Subscriptions.topics(topic), **options
    )


def run_slowly(source, system):
    """Run a stream whose records wait behind a boundary until `go` is set; return (materialized value, result, `go`)."""
    go, reached = threading.Event(), threading.Event()

    def wait(record):
        reached.set()
        assert go.wait(60)
        return record.offset

    value, done = source.async_boundary(64).map(wait).to_mat(Sink.to_list(), Keep.both).run(system)
    assert reached.wait(30)
    return value, done, go


def test_the_records_behind_the_end_of_a_bounded_read_are_waited_for(settings, system, topic_with, committed):
    topic = topic_with("bounded-tail", [b"x"] * 20)
    control, done, go = run_slowly(bounded(settings, topic, until="end"), system)
    with pytest.raises(TimeoutError):
        control.is_shutdown.result("300ms")
    go.set()
    assert done.result(30) == list(range(20))
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 20}


def test_the_records_of_a_drained_stream_are_waited_for(settings, system, topic_with, committed):
    topic = topic_with("drained-tail", [b"x"] * 20)
    control, done, go = run_slowly(bounded(settings, topic), system)
    with ThreadPoolExecutor() as pool:
        drained = pool.submit(control.drain_and_shutdown, done)
        with pytest.raises(TimeoutError):
            control.is_shutdown.result("300ms")
        go.set()
        assert drained.result(30) == list(range(20))
    assert committed(topic) == {0: 20}


def test_a_bounded_read_inside_a_restarted_source_leaves_its_partitions_to_the_next_one(settings, system, topic_with):
    # The run does not end with it: it kept the partitions as long as the run, and the next one read nothing.
    topic, controls = topic_with("restarted-tail", [b"x"] * 20), []
    source = RestartSource.on_failures_with_backoff(
        RestartSettings("10ms", "20ms", 0.0),
        lambda: bounded(settings, topic, until="end").map_materialized_value(controls.append),
    )
    _, done, go = run_slowly(source, system)
    controls[0].is_shutdown.result(30)
    go.set()
    assert done.result(30) == list(range(20))


def test_the_records_of_a_drained_stream_that_restarts_are_waited_for(settings, system, topic_with, committed):
    topic, control = topic_with("drained-restarts", [b"x"] * 20), RestartControl()
    source = RestartSource.on_failures_with_backoff(
        RestartSettings("10ms", "20ms", 0.0), lambda: control.follow(bounded(settings, topic))
    )
    _, done, go = run_slowly(source, system)
    with ThreadPoolExecutor() as pool:
        drained = pool.submit(control.drain_and_shutdown, done)
        with pytest.raises(TimeoutError):
            control.is_shutdown.result("300ms")
        go.set()
        assert drained.result(30) == list(range(20))
    assert committed(topic) == {0: 20}
