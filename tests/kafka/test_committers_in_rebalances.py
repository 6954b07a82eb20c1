"""Committers when a partition is revoked: they acknowledge the offsets of their batch at once, because the revocation waits for records in flight."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Message

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.island.run import runs_of
from streamactors.kafka import Committer, CommitterSettings, Consumer, Subscriptions
from streamactors.kafka.committable import CommittableOffset, Origin
from streamactors.kafka.committing.commit_routes import routes_of
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition
from tests.kafka._partitioned import merged

KEY = TopicPartition("t", 0)
PATIENT = CommitterSettings(max_batch=1_000, max_interval_ms=3_600_000)


@pytest.mark.parametrize("handed_over", [10, 5])
def test_a_revocation_does_not_wait_for_the_interval_of_a_committer(
    settings, system, topic_with, wait_for, caplog, handed_over
):
    # The offsets, and the marks behind records that were dropped, waited in the Committer for their interval: the revocation took
    # revoke_timeout_ms, and the next owner read the records again.
    topic = topic_with(f"handed-over-{handed_over}", [b"x"] * 20, 2)
    source = Consumer.committable_source(replace(settings, revoke_timeout_ms=4_000), Subscriptions.topics(topic))
    kept = source.filter(lambda message: message.record.offset < handed_over).map(lambda message: message.offset)
    control, done = kept.to_mat(Committer.sink(PATIENT), Keep.both).run(system)

    def positions(of):
        return {p["position"] or p["fetched"] for p in of.snapshot().get("partitions", {}).values()}

    wait_for(lambda: positions(control) == {10})
    read = []
    with ActorSystem("second") as second:
        rest = Consumer.plain_source(settings, Subscriptions.topics(topic))
        other, _ = rest.to_mat(Sink.foreach(read.append), Keep.both).run(second)
        wait_for(lambda: positions(other) == {10})
        other.shutdown().result(30)
    control.shutdown().result(30)
    done.result(30)
    assert "in flight" not in caplog.text
    assert read == []


@pytest.mark.expects_log("hides marks")
def test_offsets_that_come_while_a_revocation_waits_are_not_kept_for_the_interval_either(system):
    tracker = OffsetTracker()
    tracker.assigned([KEY], 1)
    tracker.delivered(KEY, 1, 10, 0)
    origin = Origin(KEY, 1, tracker, lambda reply: reply.try_complete(None))
    offsets = [CommittableOffset((None, Message(topic="t", partition=0, offset=at), origin)) for at in range(10)]
    queue, done = Source.queue(10).to_mat(Committer.sink(PATIENT), Keep.both).run(system)
    (run,) = runs_of(system)
    routes_of(run).source("the source", tracker, tracker.done_everywhere, origin.commit)
    for each in offsets[:5]:
        queue.offer(each)
    late, begun = [], threading.Event()
    listener = Begun(begun)
    tracker.tell_of_drains(listener)
    drain = threading.Thread(target=lambda: late.append(tracker.drain([KEY], 10_000)))
    drain.start()
    assert begun.wait(30)
    for each in offsets[5:]:
        queue.offer(each)
    drain.join(60)
    assert late == [set()]
    queue.complete()
    done.result(30)


@pytest.mark.parametrize("own_run", [False, True])
def test_the_sub_sources_of_a_partitioned_source_do_not_wait_either(
    settings, system, topic_with, wait_for, caplog, own_run
):
    topic = topic_with(f"sub-sources-{own_run}", [b"x"] * 20, 2)
    slowly = replace(settings, revoke_timeout_ms=4_000)
    parts = Consumer.committable_partitioned_source(slowly, Subscriptions.topics(topic))
    sink = Committer.sink(PATIENT, offset=lambda message: message.offset)
    if own_run:
        control, done = parts.to_mat(Sink.foreach(lambda part: part[1].run_with(sink, system)), Keep.both).run(system)
    else:
        control, done = merged(parts).to_mat(sink, Keep.both).run(system)
    wait_for(lambda: {p["position"] for p in control.snapshot().get("partitions", {}).values()} == {10})
    read = []
    with ActorSystem("second") as second:
        rest = Consumer.plain_source(settings, Subscriptions.topics(topic))
        other, _ = rest.to_mat(Sink.foreach(read.append), Keep.both).run(second)
        wait_for(lambda: {p["fetched"] for p in other.snapshot().get("partitions", {}).values()} == {10})
        other.shutdown().result(30)
    control.shutdown().result(30)
    done.result(30)
    assert "in flight" not in caplog.text
    assert read == []


class Begun:
    """Hears that a drain has begun."""

    def __init__(self, event):
        self._event = event

    def draining(self):
        self._event.set()
