"""The last records of a stream take longer than the closing of its consumer may: they are committed all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from streamactors import Keep, Sink
from streamactors.kafka import Consumer, Subscriptions


def slow_stream(settings, system, topic, **options):
    """Run a stream whose records wait behind a boundary until `go` is set; return (control, result, `go`)."""
    go, reached = threading.Event(), threading.Event()

    def wait(record):
        reached.set()
        assert go.wait(60)
        return record.offset

    source = Consumer.source(
        replace(settings, close_timeout_ms=1, poll_interval_ms=1), Subscriptions.topics(topic), **options
    )
    control, done = source.async_boundary(64).map(wait).to_mat(Sink.to_list(), Keep.both).run(system)
    assert reached.wait(30)
    return control, done, go


def test_the_records_behind_the_end_of_a_bounded_read_are_waited_for(settings, system, topic_with, committed):
    topic = topic_with("bounded-tail", [b"x"] * 20)
    control, done, go = slow_stream(settings, system, topic, until="end")
    with pytest.raises(TimeoutError):
        control.is_shutdown.result("300ms")
    go.set()
    assert done.result(30) == list(range(20))
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 20}


def test_the_records_of_a_drained_stream_are_waited_for(settings, system, topic_with, committed):
    topic = topic_with("drained-tail", [b"x"] * 20)
    control, done, go = slow_stream(settings, system, topic)
    with ThreadPoolExecutor() as pool:
        drained = pool.submit(control.drain_and_shutdown, done)
        with pytest.raises(TimeoutError):
            control.is_shutdown.result("300ms")
        go.set()
        assert drained.result(30) == list(range(20))
    assert committed(topic) == {0: 20}
