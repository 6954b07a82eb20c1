"""Snapshots: the state of a running graph, as data and as a picture; taking one does not disturb the graph."""

from __future__ import annotations

import threading

import pytest

from streamactors import Broadcast, Flow, GraphDSL, Keep, Merge, RunnableGraph, Sink, Source
from streamactors.engine import snapshot
from streamactors.engine.boundary import BoundaryOutLogic
from streamactors.engine.island.run import runs_of
from streamactors.engine.snapshot import Wait, snapshots
from streamactors.engine.stalls import diagnosis
from streamactors.testing import TestSink, TestSource
from tests.actors.eventually import eventually

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def run_probes(system, flow):
    return TestSource.probe().via(flow).to_mat(TestSink.probe(), Keep.both).run(system)


def shot_of(system):
    (shot,) = snapshots(system)
    return shot


def test_without_demand_everybody_waits_for_the_sink(actor_system):
    _, sink = run_probes(actor_system, Flow.map(str))
    sink.ensure_subscription()
    shot = shot_of(actor_system)
    assert [stage.name for stage in shot.stages] == ["test_source_probe", "map", "test_sink_probe"]
    assert [(c.source, c.target, c.state, c.asked, c.ready, c.elements) for c in shot.connections] == [
        (0, 1, "open", 0, 0, 0),
        (1, 2, "open", 0, 0, 0),
    ]
    assert shot.waits == (Wait(0, 1, "demand"), Wait(1, 2, "demand"))
    sink.cancel()


def test_a_part_that_ends_while_it_is_looked_at_is_left_out(actor_system, monkeypatch):
    # AttributeError: 'BoundaryOutLogic' object has no attribute 'peer'
    _, sink = run_probes(actor_system, Flow.map(str).async_boundary())
    sink.ensure_subscription()
    (run,) = runs_of(actor_system)
    said, kept = snapshot._said, []

    def ends(logic):
        if isinstance(logic, BoundaryOutLogic):
            kept.append((logic, logic.peer))
            del logic.peer
        return said(logic)

    monkeypatch.setattr(snapshot, "_said", ends)
    assert len(shot_of(actor_system).stages) == 5
    ((half, peer),) = kept
    half.peer = peer
    island = run.islands[0]
    interpreter = island.interpreter
    del island.interpreter
    try:
        assert 0 < len(shot_of(actor_system).stages) < 5
        assert diagnosis.diagnose(run) is not None
        assert diagnosis._blocked(run) is None
        assert diagnosis._paused(run) == ()
    finally:
        island.interpreter = interpreter
    sink.cancel()


def test_demand_and_counts_are_those_of_the_connection(actor_system):
    source, sink = run_probes(actor_system, Flow.map(str))
    sink.request(10)
    source.send_next(1, 2, 3).send_next(4)
    sink.expect_next_n(4)
    first, second = shot_of(actor_system).connections
    assert (first.asked, first.elements, first.chunks) == (6, 4, 2)
    assert (second.asked, second.ready, second.elements) == (6, 0, 4)
    assert shot_of(actor_system).waits == (Wait(1, 0, "elements"), Wait(2, 1, "elements"))
    sink.cancel()


def test_a_stage_that_does_not_take_what_lies_ready_is_what_its_producer_waits_for(actor_system):
    with GraphDSL() as g:
        fan = g.add(Broadcast(2))
        g.add(TestSource.probe(), keep=True) >> fan
        fan >> g.add(TestSink.probe(), keep=True)
        fan >> g.add(TestSink.probe(), keep=True)
    source, fast, slow = g.to_runnable().run(actor_system)
    slow.request(1)
    fast.request(5)
    source.send_next(1)
    fast.expect_next(1)
    slow.expect_next(1)
    shot = shot_of(actor_system)
    broadcast = shot.stage("broadcast").id
    starving = [c for c in shot.connections if c.source == broadcast]
    assert sorted(c.asked for c in starving) == [0, 4]
    assert Wait(broadcast, next(c.target for c in starving if c.asked == 0), "demand") in shot.waits
    fast.cancel()
    slow.cancel()


def test_a_boundary_is_shown_between_its_islands_with_what_it_holds(actor_system):
    source, sink = run_probes(actor_system, Flow.map(str).async_boundary(4))
    assert source.expect_request() == 4
    source.send_next(1, 2, 3)
    sink.request(1).expect_next("1")
    shot = shot_of(actor_system)
    assert {stage.island for stage in shot.stages} == {0, 1}
    (boundary,) = [c for c in shot.connections if c.state == "boundary"]
    assert (boundary.ready, boundary.elements) == (2, 3)
    text = shot.to_mermaid()
    assert "subgraph island0" in text
    assert "boundary, asked" in text
    sink.cancel()


def test_looking_does_not_need_the_stage_to_answer(actor_system):
    entered, leave = threading.Event(), threading.Event()

    def block(x):
        entered.set()
        leave.wait(10)
        return x

    done = Source.single(1).async_boundary().map(block).named("blocked").run_with(Sink.ignore(), actor_system)
    assert entered.wait(30)
    shot = shot_of(actor_system)
    assert any("map" in stage.name or "blocked" in stage.name for stage in shot.stages)
    leave.set()
    done.result(30)
    eventually(lambda: snapshots(actor_system) == [])


def test_a_stage_that_has_ended_is_shown_while_what_it_sent_waits(actor_system):
    source, other = TestSource.probe(), TestSource.probe()
    (first, second), sink = source.zip(other, mat=Keep.both).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    sink.request(5)
    first.send_next(1).send_complete()
    sink.expect_no_message("20ms")
    shot = shot_of(actor_system)
    (ended,) = [stage for stage in shot.stages if stage.state == "ended"]
    (connection,) = [c for c in shot.connections if c.source == ended.id]
    assert (connection.state, connection.ready) == ("completing", 1)
    assert Wait(ended.id, shot.stage("zip").id, "room") in shot.waits
    second.send_next(2)
    sink.expect_next((1, 2)).expect_complete()


def test_sub_streams_are_shown_too(actor_system):
    sink = Source.range(2).flat_map_merge(2, lambda n: Source.never().named(f"inner {n}")).run_with(
        TestSink.probe(), actor_system
    )  # fmt: skip
    sink.request(1).expect_no_message("10ms")
    names = {stage.name for stage in shot_of(actor_system).stages}
    assert {"inner 0", "inner 1", "flat_map_merge"} <= names
    assert shot_of(actor_system).stage("flat_map_merge").state == "2 of 2 inner sources"
    sink.cancel()


def test_who_holds_a_mark_is_named(actor_system):
    with GraphDSL() as g:
        fan = g.add(Broadcast(2))
        g.add(Source.range(8).with_replay(on_done=lambda _: None).max_chunk(2)) >> fan
        fan >> g.add(TestSink.probe().named("fast"), keep=True)
        fan >> Flow.map(str).async_boundary(8) >> g.add(TestSink.probe().named("slow"), keep=True)
    fast, slow = g.to_runnable().run(actor_system)
    fast.request(4).expect_next_n([0, 1, 2, 3])
    slow.ensure_subscription()
    shot = shot_of(actor_system)
    done = {shot.stages[mark.sink].name: mark for mark in shot.marks}
    assert set(done) == {"fast", "slow"}
    assert [position for _, position in done["fast"].done.values()] == [4]
    assert not done["slow"].done
    assert done["slow"].silent_ms >= 0
    fast.cancel()
    slow.cancel()


def test_a_blueprint_has_a_picture_without_running():
    with GraphDSL() as g:
        fan, join = g.add(Broadcast(2)), g.add(Merge(2))
        Source.range(3).named('the "numbers" <3>') >> fan
        fan >> Flow.map(str) >> join
        fan >> Flow.map(str).async_boundary() >> join
        join >> Sink.ignore()
    graph = g.to_runnable()
    assert isinstance(graph, RunnableGraph)
    text = graph.to_mermaid()
    assert text.startswith("flowchart LR\n")
    assert "the &quot;numbers&quot; &lt;3&gt;" in text
    assert "boundary" in text
    assert text.count("-->") == 8
