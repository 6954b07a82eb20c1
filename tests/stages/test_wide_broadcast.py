"""A broadcast to hundreds of outputs: what it costs to know their common demand does not grow with the square of their number."""

from __future__ import annotations

from streamactors import Broadcast, Flow, GraphDSL, Merge, Sink, Source
from streamactors.stages.junctions import fan_out


class Looked(list):
    """Counts how many outputs were looked at one by one, or walked over."""

    looks = 0

    def __getitem__(self, index):
        Looked.looks += 1
        return super().__getitem__(index)

    def __iter__(self):
        Looked.looks += len(self)
        return super().__iter__()


def looks(outputs: int, elements: int) -> int:
    """Send elements through a wide broadcast and a merge; return how often an output was looked at."""
    with GraphDSL() as g:
        source, fan, join = g.add(Source.range(0, elements)), g.add(Broadcast(outputs)), g.add(Merge(outputs))
        total = g.add(Sink.fold(0, lambda a, b: a + b), keep=True)
        source >> fan
        for i in range(outputs):
            fan.out(i) >> Flow.map(lambda x: x + 1) >> join.in_(i)
        join >> total
    Looked.looks = 0
    (future,) = g.to_runnable().run()
    assert future.result(timeout=60) == outputs * sum(range(1, elements + 1))
    return Looked.looks


def test_looking_for_the_common_demand_is_linear_in_the_outputs(monkeypatch):
    bind = fan_out._BroadcastLogic.bind

    def counted(self):
        bind(self)
        self.live = Looked(self.live)

    monkeypatch.setattr(fan_out._BroadcastLogic, "bind", counted)
    # every output gets every element: 200 × 300 of them; a look at all outputs per pull would be forty times as many as now
    assert looks(200, 300) < 5 * 200 * 300


def test_an_output_that_cancels_does_not_hold_the_others_back():
    with GraphDSL() as g:
        source, fan = g.add(Source.range(0, 1_000)), g.add(Broadcast(3))
        short, long, longer = (g.add(Sink.to_list(), keep=True) for _ in range(3))
        source >> fan
        fan.out(0) >> Flow.take(5) >> short
        fan.out(1) >> long
        fan.out(2) >> Flow.take(7) >> longer
    few, everything, some = (future.result(timeout=30) for future in g.to_runnable().run())
    assert (few, some) == (list(range(5)), list(range(7)))
    assert everything == list(range(1_000))
