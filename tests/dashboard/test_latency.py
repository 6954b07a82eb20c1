"""The latency of the state: the reader turns measuring on and off, and the lines of text say the sum beside the whole."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.dashboard.latency_lines import latency_lines, sums
from streamactors.dashboard.reading.latency import LatencyReader
from streamactors.engine.island.run import runs_of
from tests.actors.eventually import eventually


def test_a_reader_measures_the_runs_of_its_system_until_it_is_closed():
    with ActorSystem("read") as system:
        reader = LatencyReader()
        queue = Source.range(0, 10**9).with_replay(on_done=lambda _: None).map(lambda x: x).named("numbers")
        future = queue.throttle(2_000, "1s").run_with(Sink.ignore().named("nothing"), system)
        (run,) = runs_of(system)
        assert not run.sampled
        rows = lambda: reader.read(0.0, [run])["latency"]  # noqa: E731
        rows()
        assert run.sampled
        eventually(lambda: any(row.whole and row.n for row in rows()), 30)
        hops = [row for row in rows() if not row.whole]
        assert [row.hop for row in hops] == ["range+numbers", "throttle", "nothing"]
        assert [row.place for row in hops] == [0, 1, 2]
        reader.close()
        assert not run.sampled
        future.cancel()


def row(hop: str, mean: float, *, n: int = 10, whole: bool = False, skew: bool = False, graph: str = "g") -> dict:
    return {
        "graph": graph, "hop": hop, "n": n, "place": 0, "whole": whole, "p50_ms": mean, "p99_ms": mean, "max_ms": mean, "mean_ms": mean,
        "working_ms": None if whole else mean / 4, "waiting_ms": None if whole else mean * 3 / 4, "clock_skew": skew, "process": None,
    }  # fmt: skip


def test_the_hops_of_a_graph_with_two_sinks_add_up_per_journey():
    hops = [row("read", 4.0, n=20), row("left", 2.0), row("right", 6.0), row("commit", 100.0)]
    ends = [row("left", 6.0, whole=True), row("right", 10.0, whole=True)]
    assert sums(hops, ends) == pytest.approx((8.0, 2.0, 6.0)), "the commit comes after the sinks"


def test_the_lines_have_each_hop_the_sum_and_the_whole_journeys():
    rows = [row("read", 4.0), row("commit", 9.0), row("sink", 4.0, whole=True), row("committed", 13.0, whole=True)]
    lines = list(latency_lines(rows))
    assert lines[0] == "latency of g"
    firsts = [line.split("  ")[1].strip() for line in lines[2:]]
    assert firsts == [
        "read",
        "commit",
        "sum of the hops of a journey",
        "end to end: sink sink",
        "end to end: the commit",
    ]
    assert "4.000" in lines[4]
    assert "13.0" in lines[-1]


def test_names_cannot_add_lines_or_control_a_terminal():
    hostile = "x\n  fake 1 2 3\x1b[31m"
    text = "\n".join(latency_lines([row(hostile, 1.0, graph=hostile), row(hostile, 1.0, whole=True, graph=hostile)]))
    assert "\x1b" not in text
    assert not any(line.strip().startswith("fake") for line in text.splitlines())


def test_clocks_that_disagree_are_told():
    assert "clock" in list(latency_lines([row("read", 1.0, skew=True)]))[-1]


def test_the_rows_of_a_state_can_be_shown():
    with ActorSystem("shown") as system:
        reader = LatencyReader()
        assert list(map(asdict, reader.read(0.0, list(runs_of(system)))["latency"])) == []
        reader.close()
