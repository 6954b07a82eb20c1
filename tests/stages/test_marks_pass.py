"""Marks through stages with a second way in or out: what a mark waits for, and which way it takes."""

from __future__ import annotations

from typing import Any

from streamactors import ActorSystem, Flow, Keep, Sink, Source, WireTap
from streamactors.stages.substreams.switch_map import SwitchMap
from streamactors.testing import TestSource
from tests.stages.harness import Bench
from tests.stages.test_junction_demand import Probes


def test_a_mark_waits_for_the_source_of_the_element_before_it(timeless: ActorSystem) -> None:
    sources: list[Any] = []

    def open_source(_: int) -> Any:
        return TestSource.probe().map_materialized_value(sources.append)

    with Bench(timeless, SwitchMap(open_source)) as bench:
        bench.mark()
        assert bench.marks == [0]
        bench.request(9)
        bench.send(1)
        bench.mark()
        sources[0].send_next("a")
        bench.settle()
        assert bench.seen == [("mark", 0), ("element", "a")]
        bench.send(2)  # the first source is cancelled: what it had not sent is dropped on purpose
        assert bench.seen[2:] == [("mark", 1)]
        bench.mark()
        sources[1].send_next("b").send_complete()
        bench.settle()
        assert bench.seen[3:] == [("element", "b"), ("mark", 2)]
        bench.send(3)
        bench.mark()
        bench.complete()
        assert bench.end is None
        sources[2].send_complete()
        bench.settle()
        assert (bench.marks, bench.end) == ([0, 1, 2, 3], "completed")


def test_marks_and_signals_of_a_switched_source_go_on_behind_its_elements(timeless: ActorSystem) -> None:
    with Bench(timeless, SwitchMap(lambda n: Source.range(n))) as bench:
        bench.signal()
        bench.request(9)
        bench.send(3)
        bench.signal()
        assert [x for kind, x in bench.seen if kind == "element"] == [0, 1, 2]
        assert [kind for kind, _ in bench.seen] == ["signal", "element", "element", "element", "signal"]


def test_marks_of_a_wire_tap_take_the_main_way_only(timeless: ActorSystem) -> None:
    probes = Probes(timeless, WireTap())
    probes.request(1, 0)
    probes.request(9, 1)
    probes.send(0, "a")
    probes.on(probes.sources[0], lambda logic: logic.put({("source", 0): (1, 1)}))
    assert [kind for kind, _ in probes.sinks[0].seen] == ["element", "mark"]
    assert [kind for kind, _ in probes.sinks[1].seen] == ["element"]
    probes.close()


def test_a_wire_tap_goes_on_without_its_branch_and_ends_with_its_main_way(timeless: ActorSystem) -> None:
    probes = Probes(timeless, WireTap())
    probes.request(9, 0)
    probes.request(9, 1)
    probes.on(probes.sinks[1], lambda logic: logic.inlets[0].cancel())
    probes.send(0, "a", "b")
    assert [x for _, x in probes.sinks[0].seen] == ["a", "b"]
    assert probes.sources[0].cancelled is None
    probes.on(probes.sinks[0], lambda logic: logic.inlets[0].cancel())
    assert probes.sources[0].cancelled is not None


def test_a_wire_tap_drops_what_its_branch_does_not_ask_for(timeless: ActorSystem) -> None:
    probes = Probes(timeless, WireTap())
    assert probes.asked == [0]
    probes.request(2, 1)
    assert probes.asked == [0], "the branch alone asks for nothing"
    probes.request(9, 0)
    probes.send(0, 1, 2, 3)
    probes.send(0, 4)
    assert [x for _, x in probes.sinks[0].seen] == [1, 2, 3, 4]
    assert [x for _, x in probes.sinks[1].seen] == [1, 2]
    probes.close()


def test_a_flow_of_a_sink_and_a_source_keeps_what_both_materialize(timeless: ActorSystem) -> None:
    flow = Flow.from_sink_and_source(Sink.to_list(), Source.maybe(), mat=Keep.both)
    (taken, maybe), came = Source.range(3).via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run(timeless)
    maybe.succeed("x")
    timeless.clock.settle()  # type: ignore[attr-defined]
    assert (taken.result(0), came.result(0)) == ([0, 1, 2], ["x"])
