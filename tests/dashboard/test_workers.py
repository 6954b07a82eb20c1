"""Stages in worker processes: the page shows them where they are, with the shares that the process itself has measured."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.dashboard.model import EdgeState
from streamactors.dashboard.reading.workers import Gap, Seen, WorkersReader
from streamactors.dashboard.serving import Dashboard
from streamactors.engine.island.run import runs_of
from streamactors.engine.workers.halves import WorkerOutLogic


def slow(x: int) -> int:
    time.sleep(0.005)
    return x


def quick(x: int) -> int:
    return x


def wait_for(page: Dashboard, holds: Callable[[dict[str, Any]], object], seconds: float = 60.0) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        (graph,) = page.state()["graphs"] or [{"stages": [], "edges": [], "causes": []}]
        if holds(graph):
            return graph
        assert time.monotonic() < deadline, graph
        time.sleep(0.2)


def in_workers(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in graph["stages"] if stage["process"]}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_stages_of_a_worker_process_are_in_the_graph_with_their_own_shares() -> None:
    taken: list[int] = []
    with ActorSystem("workers") as system:
        numbers = Source.range(10**9).named("numbers").async_boundary(process=True)
        worked = numbers.map(quick).named("first").buffer(16).map(slow).named("decode")
        worked.async_boundary().to(Sink.foreach(taken.append).named("last")).run(system)
        with system.serve_dashboard() as page:
            page.watch()
            graph = wait_for(page, lambda graph: any(s["culprit"] and s["process"] for s in graph["stages"]))
            time.sleep(4.0)
            graph = page.state()["graphs"][0]
            came_out = len(taken)
            (out,) = [
                logic
                for run in runs_of(system)
                for interpreter in run.interpreters()
                for logic in interpreter.logics
                if isinstance(logic, WorkerOutLogic)
            ]
            pid = int(out.remote.state.split()[1])
    stages = in_workers(graph)
    assert {stage["process"] for stage in stages.values()} == {f"worker {pid}"}
    assert pid != os.getpid()
    (decode,) = [stage for name, stage in stages.items() if "decode" in name]
    assert decode["culprit"]
    assert decode["works"] > 0.8
    assert 0 < decode["elements_per_s"] <= 1.1 / 0.005, "each element takes 5 ms"
    assert decode["elements"] >= came_out - decode["elements_per_s"] * 5, "it is as new as a few seconds ago"
    assert "decode" in graph["causes"][0]["sentence"]
    others = {stage["island"] for stage in graph["stages"] if not stage["process"]}
    assert not others & {stage["island"] for stage in stages.values()}, "a process has islands of its own"
    names = {stage["id"]: stage["name"] for stage in graph["stages"]}
    way = {names[edge["source"]]: names[edge["target"]] for edge in graph["edges"]}
    here, seen = "numbers", ["numbers"]
    while here in way:
        here = way[here]
        seen.append(here)
    assert seen[-1] == "last"
    assert any("decode" in name for name in seen), "the way leads through the process"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_process_is_asked_only_while_somebody_looks() -> None:
    with ActorSystem("workers") as system:
        numbers = Source.range(10**9).throttle(500, "1s").async_boundary(process=True).map(quick).named("work")
        numbers.async_boundary().to(Sink.ignore()).run(system)
        with system.serve_dashboard() as page:
            time.sleep(3.0)
            (run,) = runs_of(system)
            halves = [logic for island in run.interpreters() for logic in island.logics]
            (remote,) = [logic.remote for logic in halves if isinstance(logic, WorkerOutLogic)]
            assert remote._looks.newest is None, "the page is served, and nobody looks at it"
            wait_for(page, in_workers)
        newest = remote._looks.newest
        time.sleep(2.5)
        assert remote._looks.newest is newest, "nobody asks any more"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.expects_log("another continues after the last mark", "it was not started again")
def test_a_process_that_has_been_killed_is_no_longer_shown() -> None:
    with ActorSystem("workers") as system:
        numbers = Source.range(10**9).throttle(500, "1s").async_boundary(process=True).map(quick).named("work")
        done = numbers.async_boundary().run_with(Sink.ignore(), system)
        with system.serve_dashboard() as page:
            graph = wait_for(page, in_workers)
            (stage,) = in_workers(graph).values()
            os.kill(int(stage["process"].split()[1]), 9)
            assert done.exception(30) is not None
            deadline = time.monotonic() + 30
            while page.state()["graphs"] and time.monotonic() < deadline:
                time.sleep(0.2)
            assert page.state()["graphs"] == []


class Remote:
    """A worker process whose stages are replaced, as those of substreams are."""

    def __init__(self, *stages: int) -> None:
        self.stages = stages

    def look(self, by: str) -> bytes:
        stages = [{"id": each, "name": f"s{each}", "kind": "map", "island": 0} for each in self.stages]
        return json.dumps({"pid": 1, "times": [], "stages": stages, "edges": []}).encode()


def test_ids_of_stages_that_have_gone_are_forgotten_and_not_given_again() -> None:
    """Each stage of a substream that had ever run in a worker process kept an entry."""
    reader, one, other = WorkersReader(), Remote(0, 1), Remote(0)
    edge = EdgeState(1, 2, 0.0, 0, 0, 0, 0, "boundary")

    def ids(*remotes: Remote) -> list[int]:
        gaps = [Gap(edge, remote) for remote in remotes]
        found = reader.through(Seen([], [], [edge] * len(gaps)), gaps)
        return [stage.id for stage in found.stages]

    first, second, third = ids(one, other)
    assert len({first, second, third}) == 3
    one.stages = (1, 2)
    kept, new, same = ids(one, other)
    assert (kept, same) == (second, third)
    assert new not in (first, second, third)
    for number in range(3, 500):
        one.stages = (1, number)
        assert ids(one)[0] == second
    assert sum(len(each) for each in reader._ids.values()) == 2
