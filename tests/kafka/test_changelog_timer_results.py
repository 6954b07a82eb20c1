"""Results that stem from no row, in a transaction: it is committed when the sinks beside it have done them, too."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings, Transactional
from streamactors.kafka.state.changelogs.changelog import ChangelogInTransaction
from streamactors.windows import KeyValueStore, Processor, Record, TimeWindows
from tests.kafka._windows import produce, read, to_records
from tests.kafka.test_changelog_silence import (
    GRAPHS,
    after_timer_results,
    before_other_windows,
    counting,
    records,
    settings_of,
    straight,
)


@pytest.fixture
def closing(monkeypatch):
    """The cuts behind results that stem from no row: those that have begun, and an event that is set when one is committed."""
    asked, committed = [], threading.Event()
    write = ChangelogInTransaction.write

    def watched(self, changes, at, ended):
        if after_timer_results(at):
            self._transaction.post(lambda: self._transaction.when_committed(committed.set))
            self._transaction.post(lambda: asked.append(at))
        write(self, changes, at, ended)

    monkeypatch.setattr(ChangelogInTransaction, "write", watched)
    return asked, committed


class Slow:
    """A stage that holds what comes to it until `go`, and then fails."""

    def __init__(self):
        self.reached, self.go, self.pool = threading.Event(), threading.Event(), ThreadPoolExecutor(1)

    def hold(self, row):
        self.reached.set()
        self.go.wait(60)
        raise RuntimeError(f"a failure at {row}")

    def call(self, row):
        return self.pool.submit(self.hold, row)


def fails_late(slow, done, control, closing, wait_for):
    """A result waits in the slow stage; the transaction that says it was given must wait, too. Then the stage fails."""
    asked, committed = closing
    assert slow.reached.wait(60)
    wait_for(lambda: asked)
    was_committed = committed.wait(0.5)
    slow.go.set()
    assert "a failure" in str(done.exception(30))
    control.is_shutdown.exception(30)
    assert not was_committed


def test_a_result_of_silence_beside_a_transactional_sink_comes_again(cluster, system, wait_for, closing, read_all):
    """The rows are committed -> silence closes the window -> the transactional sink has the result, and the other sink has not -> the
    transaction says that the window is closed -> the stage before the other sink fails: the next run has no row and no window."""
    produce(cluster, "beside", [(0, "a", 5_000 + i) for i in range(10)], 1)
    cluster.create_topic("beside-out", partitions=1)
    reading = ConsumerSettings(cluster.bootstrap_servers, "beside", "earliest", poll_interval_ms=5)
    writing = ProducerSettings(cluster.bootstrap_servers, transactional_id="beside", commit_interval_ms=20)

    def graph(until, idle_after, other):
        counted = records(reading, "beside", until).via(counting(idle_after)).also_to(other)
        return counted.map(to_records("beside-out")).to_mat(Transactional.sink(writing), Keep.both)

    slow, found = Slow(), []
    control, done = graph(None, "1s", Flow.map_async(4, slow.call).to(Sink.ignore())).run(system)
    fails_late(slow, done, control, closing, wait_for)
    with ActorSystem("again") as again:
        control, done = graph("end", None, Sink.foreach(found.append)).run(again)
        done.result(60)
        control.is_shutdown.result(30)
    assert [(row.start, row.value) for row in found] == [(5_000, 10)]
    assert read(read_all("beside-out")) == [(0, "a@5000", 10)]


@pytest.mark.parametrize(
    ("where", "graph"),
    [("before", straight), ("before", before_other_windows), *(("beside", graph) for graph in GRAPHS)],
)
def test_transactions_go_on_although_no_row_follows(cluster, system, wait_for, committed_of, read_all, graph, where):
    """A mark that a stage on the way swallows would hold the transaction until the next row."""
    topic = f"goes-on-{where}-{graph.__name__}".replace("_", "-")
    produce(cluster, topic, [], 1)
    cluster.create_topic("out-" + topic, partitions=1)
    writing = ProducerSettings(cluster.bootstrap_servers, transactional_id=topic, commit_interval_ms=20)
    source = records(settings_of(cluster, topic), topic)
    if where == "before":
        results = source.via(graph(counting("20ms"), lambda row: row))
    else:
        results = source.via(counting("20ms")).also_to(graph(Flow.identity(), lambda row: row).to(Sink.ignore()))
    control, done = results.map(to_records("out-" + topic)).to_mat(Transactional.sink(writing), Keep.both).run(system)
    for n in range(1, 3):
        produce(cluster, topic, [(0, "a", 5_000 * n)], 1)
        wait_for(lambda n=n: committed_of(topic) == n and len(read_all("out-" + topic)) >= n)
    control.shutdown().result(30)
    done.result(30)


class Alarm(Processor):
    """Forwards each key once, when the wall clock says so, and `may_tell` is set."""

    may_tell = threading.Event()

    def init(self, context):
        self.context, self.keys = context, context.store("keys")
        context.schedule("50ms", self.tell, clock="wall")

    def process(self, record):
        self.keys.put(record.key, record.timestamp)

    def tell(self, now):
        for key, timestamp in list(self.keys.items()) if self.may_tell.is_set() else ():
            self.keys.delete(key)
            self.context.forward(Record(key, "alarm", timestamp))


def test_a_result_of_the_wall_clock_that_the_sink_has_not_done_comes_again(
    cluster, system, settings, wait_for, closing, committed
):
    produce(cluster, "walls", [(0, "a", 5_000)], 1)

    def alarms():
        topics = Consumer.topics(settings)
        return topics.source(topics.stream("walls").process(Alarm, stores=[KeyValueStore("keys")], name="alarms"))

    slow = Slow()
    control, done = alarms().map_async(4, slow.call).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: committed("walls") == {0: 1})
    Alarm.may_tell.set()
    fails_late(slow, done, control, closing, wait_for)
    with ActorSystem("again") as again:
        found = threading.Event()
        control, done = alarms().to_mat(Sink.foreach(lambda row: found.set()), Keep.both).run(again)
        assert found.wait(30)
        control.drain_and_shutdown(done, timeout=30)


class Late(Alarm):
    """Forwards rows that are far ahead at once, and all others when the wall clock says so: too late for the windows behind."""

    may_tell = threading.Event()

    def process(self, record):
        if record.timestamp > 100_000:
            self.context.forward(record)
        else:
            super().process(record)


def test_a_late_row_of_the_wall_clock_that_its_sink_has_not_done_comes_again(
    cluster, system, settings, wait_for, closing, committed
):
    produce(cluster, "lates", [(0, "a", 5_000), (0, "b", 500_000)], 1)

    def counts(late):
        topics = Consumer.topics(settings)
        rows = topics.stream("lates").process_values(Late, stores=[KeyValueStore("keys")], name="lates")
        windows = TimeWindows.of_size(100).with_grace(0)
        return topics.source(rows.group_by_key().windowed_by(windows, late=late).count(name="counts").to_stream())

    slow = Slow()
    late = Flow.map_async(4, slow.call).to(Sink.ignore())
    control, done = counts(late).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: committed("lates") == {0: 2})
    Late.may_tell.set()
    fails_late(slow, done, control, closing, wait_for)
    with ActorSystem("again") as again:
        found = threading.Event()
        control, done = counts(Sink.foreach(lambda row: found.set())).to_mat(Sink.ignore(), Keep.both).run(again)
        assert found.wait(30)
        control.drain_and_shutdown(done, timeout=30)
