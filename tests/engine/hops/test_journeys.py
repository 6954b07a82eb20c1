"""Journeys: the hops of each are contiguous and add up to the whole exactly, in any graph; none is missing, and none is invented."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, BuildError, LatencyMeter, Sink, Source, SystemClock, VirtualClock
from streamactors.engine.blueprint.modules import AsyncBoundary, StageModule, Wired
from streamactors.engine.hops.ledger import MOST_ON_THEIR_WAY, HopLedger, Sampler
from streamactors.engine.logic import Logic
from streamactors.engine.marks.progress import SinkProgress
from streamactors.engine.materializing.materializer import materialize
from streamactors.stages.junctions.fan_out import Broadcast
from tests.engine.graphs import Collect, chain, graphs


@pytest.fixture(scope="module")
def system():
    with ActorSystem("hops") as system:
        yield system


def sums_up(journey) -> bool:
    return sum(hop.waited_ms + hop.worked_ms for hop in journey.hops) == pytest.approx(
        journey.ended_ms - journey.began_ms, rel=1e-9, abs=1e-6
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(30, follow=True), two_sinks=st.booleans())
def test_the_hops_of_a_journey_add_up_in_any_graph(system, graph, two_sinks):
    for leaf in graph.leaves:
        leaf.hook = lambda position: None
    first = chain(AsyncBoundary(2), Collect([]))
    with LatencyMeter(system, every=0) as meter:
        if two_sinks:
            fan = StageModule(Broadcast(2))
            wires = (((0, 0), (1, 0)), ((1, 0), (2, 0)), ((1, 1), (3, 0)))
            parts = (graph.module, fan, first, StageModule(Collect([])))
            for done in materialize(Wired(parts, wires, (), (), lambda values: values[2:]), system):
                done.result(10)
        else:
            materialize(chain(graph.module, first), system).result(10)
    for run in meter.graphs():
        for journey in run.journeys:
            assert sums_up(journey)
            assert all(hop.waited_ms >= 0 <= hop.worked_ms for hop in journey.hops), journey
        assert run.begun or not run.journeys
        if graph.drained and run.begun:
            assert {each.sink for each in run.journeys}, "the last stamp of a source that has ended reaches the sinks"


def test_a_journey_has_every_stage_of_its_way_and_none_of_another_branch(system):
    with LatencyMeter(system, every=0) as meter:
        (
            Source.range(0, 100)
            .with_replay(on_done=lambda _: None)
            .map(lambda x: x + 1)
            .async_boundary()
            .grouped(10)
            .also_to(Sink.foreach(lambda _: None).named("side"))
            .map(len)
            .run_with(Sink.ignore().named("main"), system)
            .result(10)
        )
    (run,) = meter.graphs()
    ways = {journey.sink: tuple(hop.label for hop in journey.hops) for journey in run.journeys}
    common = ("range+map", "async_boundary", "grouped", "also_to")
    assert ways == {"side": (*common, "side"), "main": (*common, "map", "main")}
    assert {hop.hop for hop in run.hops} == {*common, "side", "map", "main"}
    assert run.on_their_way == 0
    assert run.share == pytest.approx(1.0)
    n = {hop.hop: hop.n for hop in run.hops}
    assert n["also_to"] == n["side"] + n["main"], "a stamp that was copied counts for each of its ways"


def test_in_virtual_time_each_hop_has_exactly_the_time_it_took():
    clock = VirtualClock()
    with ActorSystem("virtual", clock=clock) as system, LatencyMeter(system, every=0) as meter:
        done = (
            Source.range(0, 1)
            .with_replay(on_done=lambda _: None)
            .delay("3s")
            .named("delay")
            .grouped_within(10, "2s")
            .async_boundary()
            .run_with(Sink.to_list().named("list"), system)
        )
        clock.advance("10s")
        assert done.result(10) == [[0]]
        (run,) = meter.graphs()
    (journey,) = run.journeys
    took = {hop.label: hop.waited_ms + hop.worked_ms for hop in journey.hops}
    assert took["delay"] == 3_000.0
    assert took["grouped_within"] <= 2_000.0
    assert sum(took.values()) == journey.ended_ms - journey.began_ms
    (delay,) = [hop for hop in run.hops if hop.hop == "delay"]
    assert (delay.waiting_ms, delay.working_ms) == (3_000.0, 0.0), "nothing works in a delay"


class SteppedClock(SystemClock):
    """A clock that moves only where a test says so."""

    def __init__(self) -> None:
        self.at_ms = 1_000.0

    def now_ms(self) -> float:
        return self.at_ms


def test_work_in_a_stage_is_told_from_waiting_before_it():
    """Each element is 5 ms of work. The elements between two stamps are work of the second; those before the first one are waiting."""
    clock = SteppedClock()

    def work(x):
        clock.at_ms += 5.0
        return x

    with ActorSystem("work", clock=clock) as system, LatencyMeter(system, every=0) as meter:
        source = Source.range(0, 10).with_replay(on_done=lambda _: None).filter(lambda _: True).async_boundary()
        source.map(work).run_with(Sink.ignore(), system).result(10)
    (run,) = meter.graphs()
    before = 0
    for journey in run.journeys:
        (hop,) = [hop for hop in journey.hops if hop.label == "map"]
        assert hop.worked_ms == 5.0 * (journey.position - before)
        before = journey.position
    (row,) = [hop for hop in run.hops if hop.hop == "map"]
    assert row.n * row.working_ms == pytest.approx(50.0)


def test_nothing_is_measured_before_a_meter_asks_and_after_it_stops(system):
    def run() -> None:
        Source.range(0, 10).with_replay(on_done=lambda _: None).run_with(Sink.ignore(), system).result(10)

    run()
    with LatencyMeter(system, every=0) as meter:
        run()
    run()
    assert len(meter.graphs()) == 1


def test_a_run_that_nobody_reads_marks_of_has_no_journeys(system):
    with LatencyMeter(system, every=0) as meter:
        Source.range(0, 10).run_with(Sink.ignore(), system).result(10)
    assert meter.graphs() == ()


def test_a_source_sends_at_most_one_stamp_per_interval(system):
    with LatencyMeter(system, every="1h") as meter:
        Source.range(0, 50_000).with_replay(on_done=lambda _: None).run_with(Sink.ignore(), system).result(10)
    (run,) = meter.graphs()
    assert run.begun == 1


def test_queues_that_stand_still_hold_a_bounded_number_of_stamps(system):
    """Every element is filtered away, and the sink's inlet is held: no element would bound the stamps."""
    progress = SinkProgress()
    ledger = HopLedger(system.clock, progress, 0.0)
    sampler = Sampler(ledger)
    held = []
    while sampler.due(system.clock.now_ms()):
        held.append(ledger.begin(("s", 0), (1, len(held)), 0.0))
    assert len(held) == MOST_ON_THEIR_WAY
    held.pop()
    assert sampler.due(system.clock.now_ms()), "one has gone: there is room for another"


def test_an_interval_below_zero_is_refused(system):
    with pytest.raises(BuildError, match="every"):
        LatencyMeter(system, every=-1)


def test_the_stages_of_a_worker_process_are_one_hop_with_the_way_there_and_back(system):
    with LatencyMeter(system, every=0) as meter:
        source = Source.range(0, 2_000).with_replay(on_done=lambda _: None).async_boundary(process=True)
        source.map(str).async_boundary().map(len).run_with(Sink.ignore().named("sink"), system).result(60)
    (run,) = meter.graphs()
    assert run.journeys
    assert run.on_their_way == 0
    for journey in run.journeys:
        assert [hop.label for hop in journey.hops] == ["range", "worker process: map", "map", "sink"]
        assert sums_up(journey)


class Steps(Logic):
    """A sink that works in steps, as far as a ledger sees it."""

    name = "spark"
    last_hop = "writes"


def test_a_sink_that_works_in_steps_has_a_hop_for_each_and_the_last_one_ends_when_it_is_done():
    clock, progress, sink = SteppedClock(), SinkProgress(), Steps()
    sink.outlets = []
    ledger = HopLedger(clock, progress, 0.0)
    progress.hops = ledger
    progress.add_sink(sink, frozenset(("s",)))
    key = ("s", 0)
    for place in (5, 10):
        ledger.begin(key, (1, place), clock.at_ms).taken(sink)
    for hop, mark in (("gathers", 5), ("plans", 5)):
        clock.at_ms += 10.0
        ledger.reached(sink, {key: (1, mark)}, hop)
    clock.at_ms += 10.0
    progress.done(sink, {key: (1, 5)})
    (journey,) = ledger.journeys
    took = [(hop.label, hop.waited_ms + hop.worked_ms) for hop in journey.hops]
    assert took == [("spark", 0.0), ("gathers", 10.0), ("plans", 10.0), ("writes", 10.0)]
    assert ledger.on_their_way == 1, "the other has not been given to it yet"


def test_what_is_done_under_a_later_assignment_ends_no_journey_of_an_earlier_one():
    """Revoked, assigned again: the records come again, and the first journey has no end."""
    clock, progress, sink = SteppedClock(), SinkProgress(), Steps()
    sink.outlets = []
    ledger = HopLedger(clock, progress, 0.0)
    progress.hops = ledger
    progress.add_sink(sink, frozenset(("s",)))
    ledger.begin(("s", 0), (1, 5), clock.at_ms).taken(sink)
    progress.done(sink, {("s", 0): (2, 1)})
    assert not ledger.journeys
    assert ledger.on_their_way == 0


def test_a_commit_counts_once_and_only_for_its_own_assignment():
    clock, progress, sink = SteppedClock(), SinkProgress(), Steps()
    sink.outlets = []
    ledger = HopLedger(clock, progress, 0.0)
    progress.hops = ledger
    progress.add_sink(sink, frozenset(("s",)))
    ledger.commits("s")
    key = ("s", 0)
    for place in ((1, 5), (2, 3)):
        ledger.begin(key, place, clock.at_ms).taken(sink)
        progress.done(sink, {key: place})
    clock.at_ms += 7.0
    for _ in range(2):
        ledger.committed(key, (2, 4))
    (commit,) = [row for row in ledger.read().hops if row.label == "commit"]
    assert (commit.whole.n, commit.whole.max_ms) == (1, 7.0)


def test_a_journey_whose_beginning_is_asked_for_waits_for_the_answer_and_its_commit_begins_there_too():
    clock, progress, sink = SteppedClock(), SinkProgress(), Steps()
    sink.outlets = []
    ledger = HopLedger(clock, progress, 0.0)
    progress.hops = ledger
    progress.add_sink(sink, frozenset(("s",)))
    ledger.commits("s")
    key, began_ms = ("s", 0), clock.at_ms
    stamp = ledger.begin(key, (1, 5), began_ms)
    ledger.asked(stamp.origin)
    stamp.taken(sink)
    clock.at_ms += 4.0
    progress.done(sink, {key: (1, 5)})
    assert not ledger.journeys, "it waits for the answer"
    ledger.answered(stamp.origin, [(ledger.row("s", "appended"), 30.0)], instead_of=0)
    (journey,) = ledger.journeys
    assert (journey.began_ms, journey.hops[0].label, journey.hops[0].waited_ms) == (began_ms - 30.0, "appended", 30.0)
    assert sums_up(journey)
    del stamp
    assert ledger.on_their_way == 0, "what waits for its commit has arrived"
    clock.at_ms += 7.0
    ledger.committed(key, (1, 5))
    (end,) = [row for row in ledger.read().ends if row.label == "committed"]
    assert (end.whole.n, end.whole.max_ms) == (1, 41.0)


def test_a_sink_that_ends_waits_for_no_answer():
    clock, progress, sink = SteppedClock(), SinkProgress(), Steps()
    sink.outlets = []
    ledger = HopLedger(clock, progress, 0.0)
    progress.hops = ledger
    progress.add_sink(sink, frozenset(("s",)))
    stamp = ledger.begin(("s", 0), (1, 5), clock.at_ms)
    ledger.asked(stamp.origin)
    stamp.taken(sink)
    progress.done(sink, {("s", 0): (1, 5)})
    ledger.sink_ended(sink)
    assert len(ledger.journeys) == 1
    ledger.answered(stamp.origin, None, instead_of=0)
    assert len(ledger.journeys) == 1
