"""`streamactors trace`: the table of hops, of a graph that runs here or behind a page."""

from __future__ import annotations

import json

from streamactors import ActorSystem, Sink, Source
from streamactors.cli.main import run

GRAPH = """
graph = Source.range(0, 20_000).with_replay(on_done=lambda _: None).map(str).named("text").to(Sink.ignore().named("nothing"))
plain = Source.range(0, 10).to(Sink.ignore())
def failing():
    return Source.range(0, 9).with_replay(on_done=lambda _: None).map(lambda n: 1 // (n - 5)).to(Sink.ignore())
"""


def test_it_prints_each_hop_the_sum_and_the_whole(module, capsys):
    assert run(["trace", f"{module(GRAPH)}:graph"]) == 0
    out = capsys.readouterr().out
    firsts = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert (firsts[0], firsts[1]) == ("hop", "range")
    for part in ("  text ", "sum of the hops", "end to end: sink nothing"):
        assert part in out


def test_json_has_one_row_per_line_and_the_hops_add_up(module, capsys):
    assert run(["trace", f"{module(GRAPH)}:graph", "--records", "20", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (end,) = [row for row in rows if row["whole"]]
    hops = sum(row["mean_ms"] * row["n"] for row in rows if not row["whole"])
    assert abs(hops - end["mean_ms"] * end["n"]) <= 0.02 * hops + 0.01 * len(rows)


def test_a_graph_whose_marks_nobody_reads_is_told_in_one_line(module, capsys):
    assert run(["trace", f"{module(GRAPH)}:plain", "--seconds", "1"]) == 1
    told = capsys.readouterr().err
    assert "reads marks" in told
    assert "Traceback" not in told


def test_a_graph_that_fails_is_told_with_its_error(module, capsys):
    assert run(["trace", f"{module(GRAPH)}:failing"]) == 1
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert "Traceback" not in told


def test_it_reads_the_page_of_another_process(capsys):
    with ActorSystem("paged") as system, system.serve_dashboard() as page:
        source = Source.range(0, 10**9).with_replay(on_done=lambda _: None).throttle(2_000, "1s")
        future = source.run_with(Sink.ignore().named("nothing"), system)
        assert run(["trace", page.url, "--records", "5", "--seconds", "60"]) == 0
        future.cancel()
    assert "end to end: sink nothing" in capsys.readouterr().out
