"""Committers that end before their run does: with a part that is started again, or because their branch has enough."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Event

import pytest

from streamactors import Broadcast, Flow, GraphDSL, RestartSettings, RestartSource, Sink
from streamactors.kafka import Committer, CommitterSettings, Consumer, Subscriptions

QUICK = CommitterSettings(max_batch=5, max_interval_ms=20)


@pytest.mark.expects_log("restart_source: failed")
def test_records_that_are_dropped_behind_a_restart_are_done(settings, system, topic_with, committed, wait_for):
    # The Committer of the failed part held its position for good: what was dropped behind the restart was never done, nor what was acknowledged behind it.
    topic, failed = topic_with("restarted", [b"%d" % i for i in range(40)]), []

    def fail_once(message):
        if message.record.offset == 11 and not failed:
            failed.append(message)
            raise ValueError("once")
        return message.offset

    def part():
        source = Consumer.committable_source(settings, Subscriptions.topics(topic))
        return source.filter(lambda message: message.record.offset % 2).map(fail_once).via(Committer.flow(QUICK))

    restarted = RestartSource.on_failures_with_backoff(RestartSettings("10ms", "20ms", 0.0), part)
    restarted.run_with(Sink.ignore(), system)
    wait_for(lambda: failed)
    wait_for(lambda: committed(topic) == {0: 40})


def test_a_committer_whose_branch_has_enough_holds_no_position_back(settings, system, topic_with, committed, wait_for):
    topic = topic_with("enough", [b"%d" % i for i in range(20)])
    offset_of = Flow.map(lambda message: message.offset)
    with GraphDSL() as g:
        source, fan = (
            g.add(Consumer.committable_source(settings, Subscriptions.topics(topic)), keep=True),
            g.add(Broadcast(2)),
        )
        source >> fan
        fan >> g.add(Flow.take(1)) >> g.add(offset_of) >> g.add(Committer.sink(QUICK))
        half = g.add(Flow.filter(lambda message: message.record.offset < 10))
        fan >> half >> g.add(offset_of) >> g.add(Committer.sink(QUICK))
    (control,) = g.to_runnable().run(system)
    wait_for(lambda: committed(topic) == {0: 20})
    control.shutdown().result(30)


def test_a_committer_that_is_cancelled_by_a_failure_holds_its_positions_back(settings, system, topic_with, committed):
    """What its branch has not done would be counted as done by the other branch, which has dropped it."""
    topic, gates = topic_with("cut-off", [b"%d" % i for i in range(20)]), {6: Future(), 10: Future()}
    reached = Event()

    def work(message):
        done, gate = Future(), gates.get(message.record.offset)
        if message.record.offset == 10:
            reached.set()
        if gate is None:
            done.set_result(message.offset)
        else:
            gate.add_done_callback(lambda _: done.set_result(message.offset))
        return done

    def fail_late(batch):
        if gates[6].done():
            raise ValueError("behind the Committer")
        return batch

    with GraphDSL() as g:
        source, fan = (
            g.add(Consumer.committable_source(settings, Subscriptions.topics(topic)), keep=True),
            g.add(Broadcast(2)),
        )
        source >> fan
        even = g.add(Flow.filter(lambda message: message.record.offset % 2 == 0).map_async(16, work))
        fan >> even >> g.add(Committer.flow(QUICK).map(fail_late)) >> g.add(Sink.ignore(), keep=True)
        odd = g.add(Flow.filter(lambda message: message.record.offset % 2).map(lambda message: message.offset))
        fan >> odd >> g.add(Committer.sink(QUICK))
    control, failed = g.to_runnable().run(system)
    assert reached.wait(30)
    gates[6].set_result(None)
    assert isinstance(failed.exception(30), ValueError)
    control.shutdown().result(30)
    assert committed(topic) == {0: 10}
