"""What marks promise, from Kafka's partitions to the sinks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Balance, Broadcast, Flow, GraphDSL, GraphStageLogic, Keep, Merge, Sink
from streamactors.engine.marks.marks import EXACT, Assigned, EndOfInput, Idle, Signal
from streamactors.engine.sink import SinkLogic
from streamactors.engine.snapshot import snapshots
from streamactors.engine.stage import SINK, ChunkLogic, GraphStage, Stage
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ProducerSettings, Subscriptions, Transactional


class Recorder(GraphStage):
    """A sink that keeps what reaches it, in order: chunks as lists, marks as they are."""

    shape = SINK

    def __init__(self):
        self.seen = []

    def create(self, attributes):
        logic = _RecorderLogic(self.seen)
        return logic, logic.future

    def marks(self, kind):
        return [mark for mark in self.seen if isinstance(mark, kind)]

    def positions(self):
        """Return {partition: position} of each position mark, in order."""
        return [{key[1].partition: place[1] for key, place in mark.items()} for mark in self.marks(dict)]


class _RecorderLogic(SinkLogic):
    def __init__(self, seen):
        super().__init__()
        self.on_chunk = lambda chunk: seen.append(list(chunk))
        self._seen = seen

    def on_mark(self, in_, mark):
        self._seen.append(dict(mark) if isinstance(mark, dict) else mark)
        super().on_mark(in_, mark)


def recorded(source, system):
    recorder = Recorder()
    control, done = source.to_mat(Sink.from_stage(recorder), Keep.both).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    return recorder


def bounded(settings, topic):
    return Consumer.source(settings, Subscriptions.topics(topic), until="end")


def test_K_1_a_mark_stands_behind_all_it_covers_and_before_all_it_does_not(settings, system, topic_with):
    topic = topic_with("order", [b"x"] * 3_000, 3)
    seen = {0: 0, 1: 0, 2: 0}
    recorder = recorded(bounded(settings, topic).async_boundary().map(lambda r: r), system)
    for each in recorder.seen:
        if isinstance(each, list):
            for record in each:
                assert record.offset == seen[record.partition]
                seen[record.partition] += 1
        elif isinstance(each, dict):
            for (_, key), (_, position) in each.items():
                assert position == seen[key.partition]
    assert seen == {0: 1_000, 1: 1_000, 2: 1_000}


def test_K_1_a_run_in_which_nobody_reads_marks_carries_none(settings, system, topic_with):
    topic = topic_with("nobody", [b"x"] * 100)
    recorder = recorded(Consumer.plain_source(settings, Subscriptions.topics(topic), until="end"), system)
    assert sum(map(len, recorder.seen)) == 100
    assert all(isinstance(each, list) for each in recorder.seen)


def test_K_2_marks_with_nothing_between_them_become_one_and_epochs_grow_from_run_to_run(settings, system, topic_with):
    topic = topic_with("merged", [b"x"] * 2_000, 2)
    first = recorded(bounded(settings.with_group_id("one"), topic).filter(lambda r: False).async_boundary(), system)
    assert first.positions()[-1].items() <= {0: 1_000, 1: 1_000}.items()
    whole = {}
    for positions in first.positions():
        whole.update(positions)
    assert whole == {0: 1_000, 1: 1_000}
    second = recorded(bounded(settings.with_group_id("two"), topic), system)
    epochs = [{epoch for mark in run.marks(dict) for epoch, _ in mark.values()} for run in (first, second)]
    assert max(epochs[0]) < min(epochs[1])


def test_K_4_a_source_puts_one_mark_behind_each_chunk(settings, system, topic_with):
    topic = topic_with("chunks", [b"x"] * 2_000, 2)
    recorder = recorded(bounded(settings, topic), system)
    told = [each for each in recorder.seen if not isinstance(each, Signal)]
    for chunk, mark in pairwise(told):
        if isinstance(chunk, list):
            behind = {key.partition: position for (_, key), (_, position) in mark.items()}
            assert behind[chunk[-1].partition] == chunk[-1].offset + 1


def transactional(cluster, name):
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    return producer


def test_K_5_a_marker_of_a_transaction_at_the_end_is_part_of_the_range(
    cluster, settings, system, topic_with, committed
):
    topic = topic_with("marker", [b"x"])
    producer = transactional(cluster, "marker")
    producer.produce(topic, b"y")
    producer.commit_transaction(10)
    recorder = recorded(bounded(settings, topic), system)
    assert [record.offset for chunk in recorder.marks(list) for record in chunk] == [0, 1]
    assert recorder.positions()[-1] == {0: 3}
    assert committed(topic) == {0: 3}


def test_K_5_the_end_is_the_last_stable_offset_and_an_empty_range_ends_at_once(
    cluster, settings, system, topic_with, committed
):
    topic = topic_with("open", [b"x"] * 3)
    producer = transactional(cluster, "open")
    producer.produce(topic, b"y")
    producer.flush(10)
    recorder = recorded(bounded(settings, topic), system)
    assert [record.offset for chunk in recorder.marks(list) for record in chunk] == [0, 1, 2]
    assert committed(topic) == {0: 3}
    again = recorded(bounded(settings, topic), system)
    assert again.marks(list) == []
    assert again.marks(EndOfInput)
    producer.abort_transaction(10)


class Undeclared(Stage):
    """Says nothing about marks."""

    name = "undeclared"

    def logic(self):
        return ChunkLogic(lambda chunk: chunk)


class ByChunk(Stage):
    """A user's stage of one function, as docs/custom-stages.md shows it."""

    handling = EXACT

    def logic(self):
        return ChunkLogic(lambda chunk: chunk)


class WithValue(ByChunk):
    """As ByChunk, and it materializes a value."""

    def create(self, attributes):
        return self.logic(), "a value"


class ByElement(Stage):
    """A user's stage of handlers."""

    handling = EXACT

    def logic(self):
        return _ByElementLogic()


class _ByElementLogic(GraphStageLogic):
    def on_push(self, inlet):
        self.push(self.out, self.grab(inlet))

    def on_pull(self, outlet):
        self.pull(self.in_)


@pytest.mark.parametrize("stage", [ByChunk, WithValue, ByElement])
def test_K_6_marks_pass_a_stage_of_a_user_that_declares_it(settings, system, topic_with, committed, stage):
    # ByChunk declared that marks pass, and swallowed them: nothing was committed, and windows behind it were not closed at the end
    topic = topic_with(f"declared-{stage.__name__}", [b"x"] * 30, 1)
    recorder = recorded(bounded(settings, topic).via(stage()), system)
    assert recorder.positions()[-1] == {0: 30}
    assert recorder.marks(EndOfInput)
    assert committed(topic) == {0: 30}


def test_K_6_a_stage_that_declares_nothing_is_refused_by_its_name(settings, system):
    source = Consumer.source(settings, Subscriptions.topics("x"))
    with pytest.raises(BuildError, match="undeclared"):
        source.via(Undeclared()).run_with(Sink.ignore(), system)
    plain = Consumer.plain_source(settings, Subscriptions.topics("x"))
    plain.via(Undeclared()).to(Sink.ignore())  # nobody reads marks: nothing to declare


def test_K_6_a_stage_that_blurs_is_good_enough_for_commits_and_not_for_a_transaction(cluster, settings, system):
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id="k6")
    source = Transactional.source(settings, Subscriptions.topics("x"))
    for blurred in (source.grouped(2), source.map_async_unordered(2, lambda x: x), source.merge(source)):
        with pytest.raises(BuildError, match="exact"):
            blurred.run_with(Transactional.sink(producer), system)


def two_ways(fan):
    with GraphDSL() as g:
        out, into = g.add(fan), g.add(Merge(2))
        out.out(0) >> Flow.map(lambda r: r).async_boundary() >> into.in_(0)
        out.out(1) >> Flow.filter(lambda r: r.offset % 2) >> into.in_(1)
    return g.to_flow()


def test_K_8_a_signal_comes_once_out_of_a_merge_and_the_end_when_both_ways_have_shown_it(settings, system, topic_with):
    topic = topic_with("both", [b"x"] * 200, 2)
    recorder = recorded(bounded(settings, topic).via(two_ways(Broadcast(2))), system)
    for kind in (Assigned, EndOfInput):
        assert sorted(mark.key[1].partition for mark in recorder.marks(kind)) == [0, 1]
    ends = {mark.key[1].partition: recorder.seen.index(mark) for mark in recorder.marks(EndOfInput)}
    for at, each in enumerate(recorder.seen):
        if isinstance(each, list):
            assert all(at < ends[record.partition] for record in each), "nothing of a partition behind its end"
    assert not [mark for mark in recorder.marks(Idle) if recorder.seen.index(mark) > ends[mark.key[1].partition]]


def test_K_9_what_supervision_skips_is_committed_and_logged_with_its_place(
    settings, system, topic_with, committed, caplog
):
    topic = topic_with("skipped", [b"1", b"x", b"3"])
    source = bounded(settings, topic).map(lambda record: int(record.value)).with_attributes(decider=resuming)
    control, got = source.to_mat(Sink.to_list(), Keep.both).run(system)
    assert got.result(30) == [1, 3]
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 3}
    assert f"{topic}-0@1" in caplog.text


def test_K_9_a_branch_of_a_balance_that_has_had_enough_ends_the_run_and_nothing_else_is_committed(
    settings, system, topic_with, committed
):
    topic = topic_with("enough", [b"x"] * 1_000)
    stored = set()
    with GraphDSL() as g:
        fan = g.add(Balance(2))
        source = g.add(bounded(settings, topic), keep=True)
        source >> fan
        for n in (5, 10**6):
            fan >> Flow.take(n) >> g.add(Sink.foreach(lambda r: stored.add(r.offset)), keep=True)
    control, *done = g.to_runnable().run(system)
    for each in done:
        each.result(30)
    control.is_shutdown.result(30)
    assert set(range(max(0, committed(topic)[0]))) <= stored


def test_K_12_a_mark_that_waits_does_not_stop_demand_and_the_snapshot_says_who_holds_it(
    settings, system, topic_with, committed, wait_for
):
    topic = topic_with("rare", [b"x"] * 5_000)
    seen, groups = [], []
    rare = Flow.filter(lambda r: r.offset % 500 == 0).grouped(8).to(Sink.foreach(groups.append))
    source = Consumer.source(settings, Subscriptions.topics(topic)).also_to(rare)
    control, done = source.to_mat(Sink.foreach(lambda r: seen.append(r.offset)), Keep.both).run(system)
    wait_for(lambda: len(seen) == 5_000)
    assert len(groups) == 1, "the branch could fill: ten rare records, a group of eight"
    wait_for(lambda: (committed(topic)[0]) > 3_500)
    assert committed(topic)[0] <= 4_000, "two rare records wait in the open group"
    (shot,) = snapshots(system)
    held = [wait for wait in shot.marks if max((place[1] for place in wait.done.values()), default=0) <= 4_000]
    assert held
    assert held[0].silent_ms >= 0
    control.shutdown()
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 5_000}
