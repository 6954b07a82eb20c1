"""The end of a stream whose windows keep a changelog: stages behind them may keep elements until their input ends.

The entries of the windows wait until the sinks have done the results before them, and such a stage gives a result only at its end."""

from __future__ import annotations

import pytest

from streamactors import Broadcast, Flow, GraphDSL, Keep, Merge, Sink
from streamactors.kafka import ProducerRecord, ProducerSettings, Transactional
from streamactors.kafka.state.changelogs.changelog import ChangelogAtLeastOnce, ChangelogInTransaction
from streamactors.windows import Record
from tests.kafka._windows import produce
from tests.kafka.test_changelog_silence import records, settings_of


@pytest.fixture
def cut_behind(monkeypatch):
    """Return a function: True when a stage was asked to write its entries behind a row. The consumer may deliver the rows in two pieces, and the
    entries behind the first may wait for the sinks until the end."""
    asked = []

    def watch(kind):
        write = kind.write

        def watched(self, changes, at, ended):
            asked.append(at)
            write(self, changes, at, ended)

        monkeypatch.setattr(kind, "write", watched)

    watch(ChangelogAtLeastOnce)
    watch(ChangelogInTransaction)
    return lambda: any(place > 0 for at in asked for _, place in at.values())


def counting(name="counts"):
    return Flow.group_by_key().count(name=name).to_stream()


def again(row):
    return Record(row.key, row.value, row.timestamp, row.context)


# ── stages that keep an element until their input ends ────────────────────────────────────────────────────────────────


def grouped():
    return Flow.grouped(2)


def sliding():
    return Flow.sliding(4)


def across_a_boundary():
    return Flow.async_boundary().grouped(2).async_boundary()


def batches_of_two_ways():
    with GraphDSL() as g:
        fan, into = g.add(Broadcast(2)), g.add(Merge(2))
        fan.out(0) >> Flow.filter(lambda _: False).grouped(2) >> into.in_(0)
        fan.out(1) >> Flow.grouped(2) >> into.in_(1)
    return g.to_flow()


def behind_other_counts():
    return Flow.map(again).via(counting("others")).grouped(2)


HOLDING = [grouped, sliding, across_a_boundary, batches_of_two_ways, behind_other_counts]


@pytest.mark.parametrize("until", [None, "end"])
@pytest.mark.parametrize("holding", HOLDING)
def test_elements_kept_until_the_end_do_not_hold_the_end(
    cluster, system, wait_for, committed_of, cut_behind, holding, until
):
    topic = f"holds-{holding.__name__}-{until}".replace("_", "-")
    produce(cluster, topic, [(0, "a", 5_000 + i) for i in range(3)], 1)
    settings, counted, found = settings_of(cluster, topic), [], []
    source = records(settings, topic, until).via(counting()).also_to(Sink.foreach(counted.append))
    control, done = source.via(holding()).to_mat(Sink.foreach(found.append), Keep.both).run(system)
    if until is None:
        wait_for(lambda: len(counted) == 3 and cut_behind())
        control.shutdown()
    done.result(30)
    control.is_shutdown.result(30)
    assert sum(map(len, found)) == 3
    assert committed_of(topic) == 3


@pytest.mark.parametrize("holding", HOLDING)
def test_elements_kept_beside_a_transaction_do_not_hold_its_end(
    cluster, system, wait_for, committed_of, read_all, cut_behind, holding
):
    topic = f"beside-{holding.__name__}".replace("_", "-")
    produce(cluster, topic, [(0, "a", 5_000 + i) for i in range(3)], 1)
    cluster.create_topic("out-" + topic, partitions=1)
    writing = ProducerSettings(cluster.bootstrap_servers, transactional_id=topic, commit_interval_ms=20)
    found = []
    counts = (
        records(settings_of(cluster, topic), topic).via(counting()).also_to(holding().to(Sink.foreach(found.append)))
    )
    written = counts.map(lambda row: ProducerRecord("out-" + topic, b"%d" % row.value, row.key))
    control, done = written.to_mat(Transactional.sink(writing), Keep.both).run(system)
    wait_for(cut_behind)
    control.shutdown()
    done.result(30)
    control.is_shutdown.result(30)
    rows = committed_of(topic)
    assert 0 < rows <= 3
    assert len(read_all("out-" + topic)) == sum(map(len, found)) == rows
