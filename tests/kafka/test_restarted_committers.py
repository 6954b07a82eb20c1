"""Committers that end before their run does: with a part that is started again, or because their branch has enough."""

from __future__ import annotations

from streamactors import Broadcast, Flow, GraphDSL, RestartSettings, RestartSource, Sink
from streamactors.kafka import Committer, CommitterSettings, Consumer, Subscriptions

QUICK = CommitterSettings(max_batch=5, max_interval_ms=20)


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

    restarted = RestartSource.on_failures_with_backoff(RestartSettings(10, 20, 0.0), part)
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
