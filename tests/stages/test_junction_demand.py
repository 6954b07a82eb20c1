"""How a junction divides demand: what it asks its inputs for, when its outputs have asked it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import (
    Balance,
    Broadcast,
    Concat,
    GraphDSL,
    Interleave,
    Merge,
    MergePreferred,
    OrElse,
    Partition,
    Sink,
    Source,
    Unzip,
    Zip,
    ZipLatest,
)
from streamactors.actors.system import ActorSystem
from streamactors.stages.junctions.ordering import MergePrioritized, MergeSorted, ZipAll
from tests.stages.harness import ProbeSink, ProbeSource


class Probes:
    """A junction between probes. Every call returns when the island has come to rest."""

    def __init__(self, system: ActorSystem, junction: Any) -> None:
        self.clock: Any = system.clock
        ins, outs = len(junction.shape.inlets), len(junction.shape.outlets)
        with GraphDSL() as g:
            middle = g.add(junction)
            for number in range(ins):
                g.add(Source.from_stage(ProbeSource()), keep=True) >> middle.in_(number)
            for number in range(outs):
                middle.out(number) >> g.add(Sink.from_stage(ProbeSink()), keep=True)
        probes = g.to_runnable().run(system)
        self.sources, self.sinks = probes[:ins], probes[ins:]
        self.clock.settle()

    def on(self, logic: Any, action: Callable[[Any], None]) -> None:
        logic.async_callback(action).invoke(logic)
        self.clock.settle()

    def request(self, n: int, sink: int = 0) -> None:
        self.on(self.sinks[sink], lambda logic: logic.request(n))

    def send(self, source: int, *elements: Any) -> None:
        self.on(self.sources[source], lambda logic: logic.put(list(elements)))

    @property
    def asked(self) -> list[int]:
        """What each source may push now."""
        return [source.outlets[0].asked for source in self.sources]

    def close(self) -> None:
        for sink in self.sinks:
            if not sink.stopped:
                self.on(sink, lambda logic: logic.inlets[0].cancel())
        for source in self.sources:
            if not source.stopped:
                self.on(source, lambda logic: logic.fail_stage(RuntimeError("the test is over")))


IN: dict[str, tuple[Callable[[], Any], list[int], list[int], list[int], list[int]]] = {
    # the junction, and what it asks its two inputs for: at the start, after request(100), after an element of each input, and
    # when the first input has ended and 100 more are asked for
    "merge": (lambda: Merge(2), [1, 1], [50, 50], [50, 49], [0, 198]),
    "merge_preferred": (lambda: MergePreferred(1), [1, 1], [100, 1], [99, 1], [0, 1]),
    "merge_prioritized": (lambda: MergePrioritized([2, 1]), [1, 1], [100, 100], [99, 99], [0, 198]),
    "concat": (lambda: Concat(2), [0, 1], [100, 1], [99, 0], [0, 199]),
    "or_else": (lambda: OrElse(), [0, 0], [100, 0], [99, 0], [0, 0]),
    "interleave": (lambda: Interleave(2, 5), [0, 0], [5, 5], [4, 4], [0, 4]),
    "merge_sorted": (lambda: MergeSorted(), [1, 1], [100, 100], [99, 99], [0, 198]),
    "zip": (lambda: Zip(), [1, 1], [100, 100], [99, 99], [0, 0]),
    "zip_latest": (lambda: ZipLatest(2), [1, 1], [50, 50], [50, 50], [0, 0]),
    "zip_all": (lambda: ZipAll(None, None), [1, 1], [100, 100], [99, 99], [0, 199]),
}


@pytest.mark.parametrize("name", IN)
def test_a_junction_divides_the_demand_among_its_inputs(timeless: ActorSystem, name: str) -> None:
    make, at_first, asked, after_elements, after_an_end = IN[name]
    probes = Probes(timeless, make())
    assert probes.asked == at_first
    probes.request(100)
    assert probes.asked == asked
    probes.send(0, 1)
    probes.send(1, 2)
    assert probes.asked == after_elements
    probes.on(probes.sources[0], lambda logic: logic.complete_stage())
    probes.request(100)
    assert probes.asked == after_an_end
    probes.close()


OUT: dict[str, tuple[Callable[[], Any], Any, int, int, int]] = {
    # the junction, an element, and what its input is asked for: when one output asks for 100, when the other asks for 30, and after
    # the element
    "broadcast": (lambda: Broadcast(2), 1, 0, 30, 29),
    "balance": (lambda: Balance(2), 1, 100, 130, 129),
    "balance that waits": (lambda: Balance(2, True), 1, 0, 130, 129),
    "partition": (lambda: Partition(2, lambda n: n % 2), 1, 16, 16, 29),
    "unzip": (lambda: Unzip(), (1, 2), 0, 30, 29),
}


@pytest.mark.parametrize("name", OUT)
def test_a_junction_asks_for_what_its_outputs_can_take(timeless: ActorSystem, name: str) -> None:
    make, element, of_one, of_both, after_an_element = OUT[name]
    probes = Probes(timeless, make())
    assert probes.asked == [0]
    probes.request(100)
    assert probes.asked == [of_one]
    probes.request(30, sink=1)
    assert probes.asked == [of_both]
    probes.send(0, element)
    assert probes.asked == [after_an_element]
    probes.close()


@pytest.mark.parametrize("make", [lambda: Zip(), lambda: ZipAll(None, None)])
def test_an_input_that_is_ahead_is_asked_for_what_is_missing_of_new_demand(
    timeless: ActorSystem, make: Callable[[], Any]
) -> None:
    probes = Probes(timeless, make())
    probes.request(10)
    probes.send(0, 1, 2, 3)
    assert probes.asked == [7, 10]
    probes.request(90)
    assert probes.asked[1] == 100
    assert probes.asked[0] >= 97, "with the three that lie there it has a hundred"
    probes.close()
