"""Results that stem from no row, without a transaction: the changelog says that they were given when the sinks have done them."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Keep, Merge, RestartSettings, RestartSource, Sink
from streamactors.engine.marks.marks import TimerResults
from streamactors.kafka import Consumer, ConsumerSettings, MetadataClient, Subscriptions
from streamactors.kafka.state.changelogs.changelog import ChangelogAtLeastOnce
from streamactors.windows import Record, RecordContext, TimeWindows
from tests.kafka._random_pipelines import Pipeline, Step
from tests.kafka._windows import CLOSED, produce

WINDOWS = TimeWindows.of_size(100).with_grace(0)


class Cuts:
    """The cuts behind results that stem from no row. `asked`: those that have begun; `written`: those whose entries are written.

    `closed`: number of windows that the entries written so far close; `check` is called with it before they are written. A window that was
    opened behind the same cut has no entry. `count`: number of all cuts whose entries are written."""

    def __init__(self):
        self.asked, self.written, self.closed, self.count = [], [], 0, 0
        self.check = lambda closed: None


@pytest.fixture
def cuts(monkeypatch):
    cuts = Cuts()
    ask, write = ChangelogAtLeastOnce.write, ChangelogAtLeastOnce._write

    def watched_ask(self, changes, at, ended):
        ask(self, changes, at, ended)
        if after_timer_results(at):
            self._producer.call(
                cuts.asked.append, at
            )  # its thread first writes the entries of a cut that waits for no sink

    def watched_write(self, records, numbers, at, ended):
        closed = sum(record.value is None for record in records)
        if closed:
            cuts.check(cuts.closed + closed)
        write(self, records, numbers, at, ended)
        cuts.closed += closed
        if after_timer_results(at):
            cuts.written.append(at)
        cuts.count += 1

    monkeypatch.setattr(ChangelogAtLeastOnce, "write", watched_ask)
    monkeypatch.setattr(ChangelogAtLeastOnce, "_write", watched_write)
    return cuts


def after_timer_results(at):
    """True if a mark tells of results that stem from no row."""
    return any(isinstance(source, TimerResults) for source, _ in at)


def records(settings, topic, until=None):
    return Consumer.records(settings, Subscriptions.topics(topic), key="string", until=until)


def counting(idle_after=None, name="seconds"):
    return Flow.group_by_key().windowed_by(WINDOWS, idle_after=idle_after).count(name=name).suppress(CLOSED).to_stream()


# ── graphs behind the records: `windows` gives results by silence, `slow` fails late ──────────────────────────────────


def straight(windows, slow):
    return windows.async_boundary().map(slow)


def in_calls(windows, slow):
    pool = ThreadPoolExecutor(1)
    return windows.map_async(4, lambda row: pool.submit(slow, row))


def two_ways(windows, slow):
    """The results go two ways and meet again. On one way they are dropped, and the mark behind them arrives early."""
    with GraphDSL() as g:
        fan, into = g.add(Broadcast(2)), g.add(Merge(2))
        fan.out(0) >> Flow.filter(lambda _: False) >> into.in_(0)
        fan.out(1) >> in_calls(Flow.identity(), slow) >> into.in_(1)
    return windows.via(g.to_flow())


def rows_around(windows, slow):
    """Rows go past the windows, too. This way knows nothing of the results."""
    with GraphDSL() as g:
        fan, into = g.add(Broadcast(2)), g.add(Merge(2))
        fan.out(0) >> windows >> into.in_(0)
        fan.out(1) >> Flow.filter(lambda _: False) >> into.in_(1)
    return straight(g.to_flow(), slow)


def beside_other_windows(windows, slow):
    """The other windows close by no silence."""
    with GraphDSL() as g:
        fan, into = g.add(Broadcast(2)), g.add(Merge(2))
        fan.out(0) >> windows >> into.in_(0)
        fan.out(1) >> counting(name="others") >> Flow.filter(lambda _: False) >> into.in_(1)
    return straight(g.to_flow(), slow)


def before_other_windows(windows, slow):
    rows = windows.map(lambda row: Record(row.key, row.value, row.timestamp, row.context)).async_boundary().map(slow)
    return rows.via(counting("1ms", name="of-results"))


def beside_a_fast_sink(windows, slow):
    return straight(windows.also_to(Sink.ignore()), slow)


def in_batches(windows, slow):
    joined = windows.grouped_within(100, "10ms").batch(4, lambda rows: rows, lambda some, more: some + more)
    return straight(joined.map_concat(lambda rows: rows), slow)


GRAPHS = [
    straight,
    in_calls,
    two_ways,
    rows_around,
    beside_other_windows,
    before_other_windows,
    beside_a_fast_sink,
    in_batches,
]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_result_of_silence_that_no_sink_has_done_comes_again(cluster, system, wait_for, committed_of, cuts, graph):
    """The rows are committed -> silence closes the window -> its result waits in a slow stage -> the sinks have done every row long ago,
    so the changelog says that the window is closed -> the stage fails: the next run has no row and no window, and the result never comes."""
    topic = "fails-" + graph.__name__.replace("_", "-")
    produce(cluster, topic, [(0, "a", 5_000 + i) for i in range(10)], 1)
    settings = settings_of(cluster, topic)
    reached, go, found = threading.Event(), threading.Event(), []

    def fail_late(_):
        reached.set()
        go.wait(60)
        raise RuntimeError("a failure")

    failing = records(settings, topic).via(graph(counting("1s"), fail_late))
    control, done = failing.to_mat(Sink.ignore(), Keep.both).run(system)
    assert reached.wait(60)
    # A busy machine may commit the rows later than silence closes their window. Then the next run reads them again.
    if committed_of(topic) == 10:
        wait_for(lambda: cuts.asked)
    go.set()
    assert "a failure" in str(done.exception(30))
    control.is_shutdown.exception(30)
    with ActorSystem("again") as again:
        whole = records(settings, topic, "end").via(counting())
        control, done = whole.to_mat(Sink.foreach(found.append), Keep.both).run(again)
        done.result(60)
        control.is_shutdown.result(30)
    assert [(row.start, row.value) for row in found] == [(5_000, 10)]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_changelog_hears_of_results_of_silence_although_no_row_follows(
    cluster, system, committed_of, wait_for, cuts, graph
):
    """A mark that a stage on the way swallows would hold the changelog, and then the commits, until the next row."""
    topic = "goes-on-" + graph.__name__.replace("_", "-")
    settings = settings_of(cluster, topic)
    produce(cluster, topic, [], 1)
    control, done = (
        records(settings, topic)
        .via(graph(counting("20ms"), lambda row: row))
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    for n in range(1, 4):
        produce(cluster, topic, [(0, "a", 5_000 * n)], 1)
        wait_for(lambda n=n: len(cuts.written) >= n and committed_of(topic) == n)
    control.shutdown().result(30)
    done.result(30)


def test_windows_behind_a_restarted_source_wait_for_their_results(cluster, system, committed_of, wait_for, cuts):
    """The source stands inside another stage, the windows do not."""
    produce(cluster, "restarted", [(0, "a", 5_000)], 1)
    settings = settings_of(cluster, "restarted")
    source = RestartSource.with_backoff(RestartSettings("10ms", "20ms", 0.0), lambda: records(settings, "restarted"))
    reached, go = threading.Event(), threading.Event()

    def hold(row):
        reached.set()
        go.wait(60)
        return row

    done = in_calls(source.via(counting("1s")), hold).run_with(Sink.ignore(), system)
    assert reached.wait(60)
    wait_for(lambda: cuts.asked)
    assert not cuts.written
    go.set()
    wait_for(lambda: cuts.written and committed_of("restarted") == 1)
    assert not done.done()


def test_windows_inside_a_restarted_source_write_their_changelog_and_commit(
    cluster, system, committed_of, wait_for, cuts
):
    """Their results have no mark of their own, because the stages around the inner graph would not know it."""
    produce(cluster, "inside", [(0, "a", 5_000)], 1)
    settings = settings_of(cluster, "inside")
    source = RestartSource.with_backoff(
        RestartSettings("10ms", "20ms", 0.0),
        lambda: records(settings, "inside").via(rows_around(counting("1s"), lambda row: row)),
    )
    found = []
    done = source.run_with(Sink.foreach(found.append), system)
    wait_for(lambda: found)
    count = cuts.count
    wait_for(lambda: cuts.count > count + 1 and committed_of("inside") == 1)
    assert not done.done()


def test_windows_inside_the_source_of_a_partition_hold_no_other_partition(cluster, system, wait_for):
    """Such windows keep no changelog. A sink beside them sees one partition, and answers for this partition only."""
    produce(cluster, "apart", [(number % 2, "a", 5_000) for number in range(10)], 2)
    settings = settings_of(cluster, "apart")

    def opened(pair):
        windows = counting(name="apart").also_to(Sink.ignore())
        deserialised = pair[1].map(
            lambda each: Record("a", 1, each.timestamp, RecordContext("apart", each.partition, each.offset))
        )
        return deserialised.via(windows)

    source = Consumer.partitioned_source(settings, Subscriptions.topics("apart"))
    done = source.flat_map_merge(4, opened).run_with(Sink.ignore(), system)

    def committed():
        with MetadataClient(settings) as client:
            return client.committed([("apart", 0), ("apart", 1)])

    wait_for(lambda: committed() == {("apart", 0): 5, ("apart", 1): 5})
    assert not done.done()


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))])
def test_a_window_is_closed_in_the_changelog_when_every_sink_has_its_result_and_commits_go_on(
    cluster, system, committed_of, wait_for, cuts, seed
):
    """Random stages behind the windows, none of which keeps results until more come."""
    dice = random.Random(seed)
    topic, pipeline = f"random-{seed}", drawn(dice)
    produce(cluster, topic, [], 1)
    found = {name: set() for name in pipeline.keeps}

    def sink(name):
        return Sink.foreach(found[name].update)

    def check(closed):
        late = {name: len(have) for name, have in found.items() if len(have) < closed}
        assert not late, f"{closed} windows are closed, and sinks have: {late}"

    cuts.check = check
    results = records(settings_of(cluster, topic), topic).via(counting("100ms")).map(lambda row: (Origin.of(row),))
    control, done = pipeline.built(results, sink).to_mat(sink("main"), Keep.both).run(system)
    rows = 0
    for number in range(1, 4):
        had = len(found["main"])
        given = [(0, f"k{i}", 10_000 * number) for i in range(dice.randint(1, 6))]
        produce(cluster, topic, given, 1)
        rows += len(given)
        wait_for(lambda: (len(found["main"]) > had and committed_of(topic) == rows) or done.done())  # noqa: B023
        written = cuts.count
        wait_for(lambda: cuts.count > written + 1 or done.done())  # noqa: B023
    control.shutdown().result(30)
    done.result(30)


class Origin(NamedTuple):
    """A result, as an origin of the elements of a random pipeline."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, row):
        return cls(row.context.topic, row.context.partition, row.context.offset)


def drawn(dice):
    """Return a pipeline that drops nothing, and keeps nothing until more comes."""
    while True:
        pipeline = Pipeline.drawn(dice)
        if not {"filter", "group", "sliding"} & set(kinds(pipeline.steps)):
            return pipeline


def kinds(steps: list[Step]):
    for step in steps:
        yield step[0]
        if step[0] == "diamond":
            for path in step[2]:
                yield from kinds(path)


def settings_of(cluster, group):
    return ConsumerSettings(cluster.bootstrap_servers, group, "earliest", commit_interval_ms=20, poll_interval_ms=5)
