"""Metrics of stages: what they count, and that a count never falls."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from streamactors import ActorSystem, Directive, Flow, RestartSettings, RestartSource, Sink, Source
from streamactors.engine.stalls.watchdog import Watchdog
from streamactors.metrics.graphs import MOST_STAGES, GraphsCollector
from tests.actors.eventually import eventually
from tests.metrics.scrapes import text_of, value

ELEMENTS = "streamactors_stage_elements_total"


@pytest.fixture
def system():
    with ActorSystem("metrics") as system:
        yield system


@pytest.fixture
def collector(system):
    return GraphsCollector(system)


def held(n):
    """Return a sink that blocks at its n-th element until the event is set, and two events: it blocks, and it may go on."""
    blocked, go = threading.Event(), threading.Event()
    seen = []

    def take(element):
        seen.append(element)
        if len(seen) == n:
            blocked.set()
            go.wait(60)

    return Sink.foreach(take), blocked, go


def numbers(n):
    """Return a source of 0 to n - 1 that stays open."""
    return Source.range(0, n).concat(Source.never())


def test_stages_of_a_graph_are_counted_by_their_names(system, collector):
    sink, blocked, go = held(100)
    numbers(100).map(str).async_boundary().map(len).to(sink).named("orders").run(system)
    assert blocked.wait(60)
    text = text_of(collector)
    go.set()
    assert 'streamactors_graph_runs{graph="orders"} 1.0' in text
    counts = {
        line.split('stage="')[1].split('"')[0]: float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith(ELEMENTS + "{")
    }
    assert set(counts.values()) <= {100.0, 0.0}
    assert list(counts.values()).count(100.0) >= 3, (
        "the source, both maps, and the sink, which has its last element in hand"
    )


def value_of(text, name, part):
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name) and part in line)


def test_two_stages_of_one_name_are_two_series(system, collector):
    sink, blocked, go = held(10)
    numbers(10).map(str).async_boundary().map(int).async_boundary().to(sink).named("g").run(system)
    assert blocked.wait(60)
    found = [value(collector, ELEMENTS, graph="g", stage=name) for name in ("map", "map 2")]
    go.set()
    assert found == [10, 10]


def test_elements_that_supervision_drops_are_counted(system, collector, caplog):
    sink, blocked, go = held(8)
    flow = Flow.map(lambda n: 10 // (n % 5)).with_attributes(decider=lambda _: Directive.RESUME)
    numbers(10).via(flow.named("divide")).to(sink).named("g").run(system)
    assert blocked.wait(60)
    text = text_of(collector)
    go.set()
    assert value_of(text, "streamactors_stage_failures_total", "divide") == 2
    assert "skipped" in caplog.text


def test_restarts_are_counted_from_the_start_though_the_back_off_begins_again(system, collector, caplog):
    made = []

    def source():
        made.append(1)
        return Source.failed(ValueError("no")) if len(made) < 5 else Source.never()

    RestartSource.with_backoff(RestartSettings("1ms", "2ms", max_restarts_within=timedelta(microseconds=1)), source).to(
        Sink.ignore()
    ).named("g").run(system)
    eventually(lambda: value_of(text_of(collector), "streamactors_stage_restarts_total", "stage=") >= 4, 60)
    assert "restart" in caplog.text


def test_a_count_never_falls_while_substreams_come_and_go(system, collector):
    counts, stop = [], threading.Event()

    def watch():
        while not stop.wait(0.005):
            counts.append(
                sum(
                    float(line.split()[-1])
                    for line in text_of(collector).splitlines()
                    if line.startswith(ELEMENTS + "{")
                )
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(5):
            graph = Source.range(0, 2_000).flat_map_concat(lambda n: Source.from_iterable([n, n]).map(str))
            assert len(graph.run_with(Sink.to_list(), system).result(60)) == 4_000
    finally:
        stop.set()
        watcher.join()
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_stages_inside_others_are_added_up_under_one_name(system, collector):
    sink, blocked, go = held(60)
    numbers(60).group_by(lambda n: n, 100).map(str).merge_substreams().to(sink).named("g").run(system)
    assert blocked.wait(60)
    lines = [line for line in text_of(collector).splitlines() if line.startswith(ELEMENTS + "{")]
    go.set()
    inside = [line for line in lines if " / " in line]
    assert inside
    assert len(lines) < 20, "sixty substreams have no sixty series"


@pytest.mark.expects_log("further ones have none")
def test_names_are_bounded(system, collector, monkeypatch):
    monkeypatch.setattr("streamactors.metrics.graphs.MOST_STAGES", 3)
    assert MOST_STAGES == 2_000
    sink, blocked, go = held(1)
    graph = numbers(1)
    for number in range(10):
        graph = graph.map(str).named(f"stage {number} {'x' * 1_000}").async_boundary()
    graph.to(sink).run(system)
    assert blocked.wait(60)
    lines = [line for line in text_of(collector).splitlines() if line.startswith(ELEMENTS + "{")]
    go.set()
    assert len(lines) == 3
    assert max(map(len, lines)) < 600


def test_a_stalled_stream_is_counted_once_and_by_the_collector_of_its_system(system, collector):
    """Each collector counted the streams of all systems, once for each watchdog."""
    with ActorSystem("another") as another, Watchdog(system, "20ms") as one, Watchdog(system, "20ms") as two:
        Source.never().to(Sink.ignore()).run(system)
        eventually(lambda: one.stalled and two.stalled)
        assert value(collector, "streamactors_stalled_streams", cause="source") == 1
        assert value(GraphsCollector(another), "streamactors_stalled_streams", cause="source") == 0


def test_an_idle_system_has_no_series_of_stages(collector):
    assert ELEMENTS + "{" not in text_of(collector)
