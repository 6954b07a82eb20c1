"""committable_source, Committer, offsets as context, at_most_once_source, Producer.committable_sink."""

from __future__ import annotations

import threading

import pytest
import reactivex.operators as rx
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import TopicPartition as BarePartition

from streamactors import Flow, Keep, Sink
from streamactors.engine.supervision import resuming
from streamactors.errors import StreamError
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    DrainingControl,
    MetadataClient,
    Producer,
    ProducerMessage,
    ProducerRecord,
    Subscriptions,
)

SMALL = CommitterSettings(max_batch=10, max_interval_ms=50)


def numbers(n):
    return [b"%d" % i for i in range(n)]


def test_offsets_in_hand_are_committed_when_the_stream_has_ended(settings, system, topic_with, committed):
    topic = topic_with("hand", numbers(1_000), 2)
    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .map(lambda m: (m.record.value, m.offset))
        .to_mat(Committer.sink(CommitterSettings(), offset=lambda pair: pair[1]), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic, 2) == {0: 500, 1: 500}


def test_a_running_stream_is_drained_with_its_commits(settings, system, topic_with, committed):
    topic = topic_with("running", numbers(200))
    seen = threading.Event()

    def note(m):
        if m.offset.offset == 199:
            seen.set()
        return m.offset

    control = (
        Consumer.committable_source(settings, Subscriptions.topics(topic))
        .map(note)
        .to_mat(Committer.sink(CommitterSettings()), DrainingControl.create)
        .run(system)
    )
    assert seen.wait(30)
    control.drain_and_shutdown(timeout=10)
    assert committed(topic) == {0: 200}


def test_K_11_what_is_filtered_is_done_when_a_committer_saw_a_mark_behind_it(settings, system, topic_with, committed):
    topic = topic_with("filtered", numbers(100))
    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .filter(lambda m: m.record.offset < 10)
        .to_mat(Committer.sink(SMALL, offset=lambda m: m.offset), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 100}


def test_K_11_a_plain_sink_makes_nothing_done(settings, system, topic_with, committed):
    topic = topic_with("plain", numbers(100))
    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: -1001}


def test_K_11_an_offset_waits_for_those_before_it_however_they_are_overtaken(
    settings, system, topic_with, committed, wait_for
):
    topic = topic_with("overtaken", numbers(50))
    go, late = threading.Event(), []

    def store(m):
        if m.record.offset == 5:
            go.wait(30)
        else:
            late.append(m.record.offset)
        return m

    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic))
        .map_async_unordered(8, store)
        .to_mat(Committer.sink(SMALL, offset=lambda m: m.offset), Keep.both)
        .run(system)
    )
    wait_for(lambda: len(late) == 49)
    wait_for(lambda: committed(topic)[0] == 5)
    go.set()
    wait_for(lambda: committed(topic)[0] == 50)
    control.shutdown().result(30)
    assert done.exception(30) is None


def test_K_11_behind_a_stage_that_hides_marks_an_offset_counts_for_all_before_it(
    settings, system, topic_with, committed, caplog
):
    topic = topic_with("hidden", numbers(100))
    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .via(Flow.rx(rx.buffer_with_count(10), rx.map(lambda batch: batch[-1]), holds=True))
        .to_mat(Committer.sink(SMALL, offset=lambda m: m.offset), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 100}
    assert "hides marks" in caplog.text


def test_an_offset_function_may_return_several(settings, system, topic_with, committed):
    topic = topic_with("several", numbers(100))
    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .grouped(7)
        .to_mat(Committer.sink(SMALL, offset=lambda group: [m.offset for m in group]), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 100}


def test_a_batch_is_committed_when_it_is_full_and_when_its_time_has_come(settings, system, topic_with, committed):
    topic = topic_with("batches", numbers(25))
    flow = Committer.flow(CommitterSettings(max_batch=10, max_interval_ms=30))
    control, batches = (
        Consumer.committable_source(settings, Subscriptions.topics(topic))
        .map(lambda m: m.offset)
        .via(flow)
        .take_while(lambda batch: batch.offsets() != {(topic, 0): 25}, inclusive=True)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    found = batches.result(30)
    control.is_shutdown.result(30)
    assert sum(batch.size for batch in found) == 25
    assert all(batch.size <= 10 for batch in found)
    assert committed(topic) == {0: 25}


def test_a_failure_commits_what_came_before_it(settings, system, topic_with, committed):
    topic = topic_with("fails", numbers(100))

    def check(m):
        if m.record.offset == 30:
            raise ValueError("30")
        return m.offset

    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic))
        .map(check)
        .to_mat(Committer.sink(CommitterSettings(max_batch=20, max_interval_ms=60_000)), Keep.both)
        .run(system)
    )
    assert isinstance(done.exception(30), ValueError)
    control.is_shutdown.exception(30)
    assert committed(topic) == {0: 30}


@pytest.mark.expects_log("skipped, ")
def test_an_offset_function_that_raises_follows_the_decider(settings, system, topic_with, committed):
    topic = topic_with("decides", numbers(20))
    sink = Committer.sink(SMALL, offset=lambda m: m.offset if m.record.offset != 7 else 1 / 0)
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
    assert isinstance(source.run_with(sink, system).exception(30), ZeroDivisionError)
    control, done = source.to_mat(sink.with_attributes(decider=resuming), Keep.both).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 20}


def test_what_is_no_offset_is_named(settings, system, topic_with):
    topic = topic_with("nooffset", numbers(1))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
    error = source.map(lambda m: 17).run_with(Committer.sink(), system).exception(30)
    assert "CommittableOffset" in str(error)
    assert "int" in str(error)


def test_offsets_travel_as_context(settings, system, topic_with, committed):
    topic = topic_with("context", numbers(100))
    control, done = (
        Consumer.source_with_offset_context(settings, Subscriptions.topics(topic), until="end")
        .map(lambda record: record.value)
        .grouped(9)
        .to_mat(Committer.sink_with_offset_context(SMALL), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 100}


def test_at_most_once_commits_before_it_delivers(settings, system, topic_with, committed):
    topic = topic_with("most", numbers(100))
    positions = []

    def look(record):
        if record.offset % 25 == 0:
            positions.append(committed(topic)[0] > record.offset)
        if record.offset == 60:
            raise ValueError

    source = Consumer.at_most_once_source(settings, Subscriptions.topics(topic), until="end")
    control, done = source.to_mat(Sink.foreach(look), Keep.both).run(system)
    assert isinstance(done.exception(30), ValueError)
    control.is_shutdown.result(30)
    assert positions == [True] * 3
    rest = source.map(lambda record: record.offset).run_with(Sink.to_list(), system).result(30)
    assert 60 not in rest
    assert rest == list(range(100 - len(rest), 100))


def test_steps_behind_an_at_most_once_source_see_committed_records_and_their_results_come_out(
    settings, system, topic_with, committed
):
    """They did not run at all: the source that had taken them inside pushed its records past them."""
    topic = topic_with("most-steps", numbers(200))
    slow = threading.Event()
    uncommitted = []

    def step(record):
        if record.offset % 40 == 0:
            slow.wait(0.03)  # never set: the watch ends the slice, and the rest is committed already
            if committed(topic)[0] <= record.offset:
                uncommitted.append(record.offset)
        return record.offset

    source = Consumer.at_most_once_source(settings, Subscriptions.topics(topic), until="end")
    results = source.map(step).filter(lambda offset: offset % 2 == 0).scan(0, lambda n, _: n + 1)
    control, done = results.to_mat(Sink.to_list(), Keep.both).run(system)
    assert done.result(30) == list(range(101))
    control.is_shutdown.result(30)
    assert uncommitted == []
    assert committed(topic) == {0: 200}


def test_a_committable_sink_commits_behind_the_acknowledgement(
    cluster, settings, producer_settings, system, topic_with, committed, read_all
):
    topic = topic_with("from", numbers(100), 2)
    cluster.create_topic("to", partitions=1)

    def envelope(m):
        record = ProducerRecord("to", m.record.value)
        if m.record.offset % 5 == 0:
            return ProducerMessage.pass_through(m.offset)
        return ProducerMessage.multi([record, record], m.offset)

    control, done = (
        Consumer.committable_source(settings, Subscriptions.topics(topic), until="end")
        .map(envelope)
        .to_mat(Producer.committable_sink(producer_settings, SMALL), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic, 2) == {0: 50, 1: 50}
    assert len(read_all("to")) == 160


def test_a_committer_s_settings_are_checked():
    from streamactors.errors import BuildError

    with pytest.raises(BuildError, match="CommitterSettings"):
        Committer.sink("soon")
    with pytest.raises(BuildError, match="max_batch"):
        CommitterSettings(max_batch=0)


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_commit_stores_the_metadata_of_the_last_record_before_it(
    settings, system, topic_with, committed, partitioned
):
    topic = topic_with(f"metadata-{partitioned}", numbers(200), 2)

    def text(record):
        return f"{record.partition}:{record.value.decode()}"

    if partitioned:
        pairs = Consumer.commit_with_metadata_partitioned_source(
            settings, Subscriptions.topics(topic), text, until="end"
        )
        source = pairs.flat_map_merge(4, lambda pair: pair[1])
    else:
        source = Consumer.commit_with_metadata_source(settings, Subscriptions.topics(topic), text, until="end")
    source.map(lambda m: m.offset).run_with(Committer.sink(SMALL), system).result(30)
    with MetadataClient(settings) as metadata:
        keys = [(topic, 0), (topic, 1)]
        assert metadata.committed(keys) == {(topic, 0): 100, (topic, 1): 100}
        with BareConsumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "last"}) as reader:
            reader.assign([BarePartition(topic, p, 99) for p in (0, 1)])
            last = {m.partition(): m.value().decode() for m in (reader.poll(30), reader.poll(30))}
        assert metadata.committed_metadata(keys) == {(topic, p): f"{p}:{last[p]}" for p in (0, 1)}


def test_metadata_that_is_no_text_or_raises_fails_the_stream_and_names_the_record(settings, system, topic_with):
    topic = topic_with("no-text", [b"1"])
    for text, said in (
        (lambda record: 5, "metadata_from_record returned int for no-text.*-0@0"),
        (lambda record: 1 // 0, "division"),
    ):
        source = Consumer.commit_with_metadata_source(settings, Subscriptions.topics(topic), text, until="end")
        with pytest.raises((StreamError, ZeroDivisionError), match=said):
            source.run_with(Sink.ignore(), system).result(30)
