"""The maps, filters and scans that run inside a Kafka source: as if they stood behind it, over every chunking, with every ending."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest

from streamactors import Keep, KillSwitches, Sink, Source
from streamactors.engine.planning.plan import plan_of
from streamactors.engine.supervision import Directive
from streamactors.kafka import Committer, CommitterSettings, Consumer, ConsumerRecord, Subscriptions
from streamactors.kafka.reading.polling import records_at_once
from streamactors.kafka.sources.source_stage import ConsumerSourceStage

VALUES = [b"%d" % i for i in range(2_000)]


def run(source, system, sink=None):
    control, result = source.to_mat(Sink.to_list() if sink is None else sink, Keep.both).run(system)
    found = result.result(30)
    control.is_shutdown.result(30)
    return found


def test_steps_are_inside_the_source_and_its_control_is_still_what_materializes(settings, system, topic_with):
    topic = topic_with("inside", VALUES)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(lambda r: int(r.value))
    source = source.filter(lambda n: n % 3 == 0).scan(0, lambda a, b: a + b)
    graph = source.to_mat(Sink.to_list(), Keep.both)
    inside = [node.stage for node in plan_of(graph.module).nodes if isinstance(node.stage, ConsumerSourceStage)]
    assert [stage.name for stage in inside] == ["Consumer.source+map+filter+scan"]
    expected, total = [0], 0
    for n in range(0, 2_000, 3):
        total += n
        expected.append(total)
    control, found = graph.run(system)
    assert found.result(30) == expected
    control.is_shutdown.result(30)


@pytest.mark.parametrize("max_chunk", [1, 7, None])
def test_results_do_not_depend_on_how_the_input_is_cut(settings, system, topic_with, committed, max_chunk):
    topic = topic_with(f"cut-{max_chunk}", VALUES[:300], partitions=3)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    source = source.map(lambda r: (r.partition, r.offset)).filter(lambda pair: pair[1] % 2 == 0)
    found = run(source if max_chunk is None else source.max_chunk(max_chunk), system)
    assert sorted(found) == [(p, o) for p in range(3) for o in range(0, 100, 2)]
    for p in range(3):
        assert [o for q, o in found if q == p] == list(range(0, 100, 2)), "in order per partition"
    assert committed(topic, 3) == {0: 100, 1: 100, 2: 100}, "also what was filtered, to the very end"


def test_what_came_before_a_failing_element_goes_out_and_is_all_that_is_committed(
    settings, system, topic_with, committed
):
    topic = topic_with("failing", VALUES[:500])

    def fragile(record):
        if record.offset == 321:
            raise ValueError("no 321")
        return record.offset

    out = []
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(fragile)
    control, done = source.to_mat(Sink.foreach(out.append), Keep.both).run(system)
    with pytest.raises(ValueError, match="no 321") as raised:
        done.result(30)
    assert "map" in raised.value.__notes__[0]
    control.is_shutdown.exception(30)
    assert out == list(range(len(out)))
    assert len(out) <= 321
    assert committed(topic)[0] <= 321


@pytest.mark.expects_log("skipped: ")
def test_resume_leaves_out_the_element_and_goes_on(settings, system, topic_with, committed):
    topic = topic_with("resume", VALUES[:100])
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    source = source.map(lambda r: 1 // (r.offset % 10) and r.offset).with_attributes(decider=lambda _: Directive.RESUME)
    assert run(source, system) == [n if n % 10 == 1 else 0 for n in range(100) if n % 10]
    assert committed(topic) == {0: 100}


def test_a_slow_step_ends_its_slice_early_and_nothing_is_lost_or_repeated(settings, system, topic_with, committed):
    """The watch cuts a slice in the middle: what was said to be delivered and was not is delivered again, once."""
    topic = topic_with("slow-step", VALUES[:400])
    slow = threading.Event()

    def step(record):
        if record.offset in (150, 151, 260):
            slow.wait(0.03)  # never set: longer than the watch looks on
        return record.offset

    source = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(step)
    assert run(source, system) == list(range(400))
    assert committed(topic) == {0: 400}


def test_messages_with_offsets_go_through_steps_to_a_committer(settings, system, topic_with, committed):
    topic = topic_with("handles", VALUES[:700], partitions=2)
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
    source = source.filter(lambda m: int(m.record.value) % 5 != 0)
    run(source, system, Committer.sink(CommitterSettings(max_batch=64)))
    assert committed(topic, 2) == {0: 350, 1: 350}


def test_a_message_its_record_and_its_offset_say_the_same(settings, system, topic_with):
    topic = topic_with("same", [b"x"])
    (m,) = run(Consumer.committable_source(settings, Subscriptions.topics(topic), until="end"), system)
    assert (m.record.value, m.record.offset, m.record.topic, m.record.partition) == (b"x", 0, topic, 0)
    assert (m.offset.offset, m.offset.topic, m.offset.partition) == (0, topic, 0)
    assert repr(m.offset) == f"CommittableOffset({topic}-0@0)"
    assert "ConsumerRecord" in repr(m)
    assert "@0" in repr(m)


def test_a_poll_makes_fewer_objects_than_bring_about_a_collection():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        assert records_at_once(500, 1) == 500
        assert 2 * records_at_once(500, 2) < 700
        gc.set_threshold(0)
        assert records_at_once(500, 2) == 500
        gc.set_threshold(1)
        assert records_at_once(500, 2) == 1
    finally:
        gc.set_threshold(*before)


def test_a_consumer_closes_when_the_last_record_is_done_though_its_run_goes_on(settings, system, topic_with, committed):
    """Nothing looks for it from time to time: the next look would come after ten minutes."""
    topic = topic_with("drained", VALUES[:3])
    held, taken = Future(), threading.Semaphore(0)

    def work(record):
        taken.release()
        return held

    source = Consumer.source(replace(settings, poll_interval_ms=600_000), Subscriptions.topics(topic))
    going_on = source.map_async(4, work).merge(Source.maybe())
    switched = going_on.via_mat(KillSwitches.single(), Keep.both)
    (control, switch), done = switched.to_mat(Sink.ignore(), Keep.both).run(system)
    for _ in range(3):
        assert taken.acquire(timeout=30)
    control.stop()
    assert not control.is_shutdown.done()
    held.set_result("done")
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 3}
    assert not done.done()
    switch.shutdown()
    done.result(30)


def test_steps_behind_a_partitions_source_are_inside_it(settings, system, topic_with, committed):
    topic = topic_with("sub-steps", VALUES[:600], partitions=3)
    slow = threading.Event()

    def step(record):
        if record.offset == 120:
            slow.wait(0.03)  # never set: the watch ends the slice, and the rest is given back
        return record.partition, record.offset

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    merged = source.flat_map_merge(3, lambda pair: pair[1].map(step).filter(lambda found: found[1] % 3))
    found = run(merged, system)
    assert sorted(found) == [(p, o) for p in range(3) for o in range(200) if o % 3]
    assert committed(topic, 3) == {0: 200, 1: 200, 2: 200}


def test_a_step_that_fails_in_a_partitions_source_fails_the_stream_behind_what_came_before(
    settings, system, topic_with, committed
):
    topic = topic_with("sub-failing", VALUES[:100])

    def fragile(record):
        if record.offset == 40:
            raise ValueError("no 40")
        return record.offset

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    out = []
    merged = source.flat_map_merge(1, lambda pair: pair[1].map(fragile))
    control, done = merged.to_mat(Sink.foreach(out.append), Keep.both).run(system)
    with pytest.raises(ValueError, match="no 40"):
        done.result(30)
    control.is_shutdown.exception(30)
    assert out == list(range(len(out)))
    assert committed(topic)[0] <= 40


@pytest.mark.parametrize("sources", ["source", "partitioned"])
def test_a_record_that_somebody_keeps_stays_what_it_was(settings, system, topic_with, sources):
    """One record is filled anew for the next message where nobody holds it."""
    topic = topic_with(f"kept-{sources}", VALUES[:300])
    kept = []

    def look(record):
        if record.offset % 7 == 0:
            kept.append(record)
        return record if record.offset % 3 == 0 else record.value

    if sources == "source":
        source = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(look)
    else:
        parts = Consumer.plain_partitioned_source(settings, Subscriptions.topics(topic), until="end")
        source = parts.flat_map_merge(1, lambda pair: pair[1].map(look))
    found = run(source, system)
    assert [record.value for record in kept] == VALUES[:300:7]
    assert [record.offset for record in kept] == list(range(0, 300, 7))
    assert all(isinstance(record, ConsumerRecord) for record in kept)
    assert [each if isinstance(each, bytes) else each.value for each in found] == VALUES[:300]
