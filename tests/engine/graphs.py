"""Random graphs as data: built into a blueprint on one side, evaluated by plain Python on the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hypothesis import strategies as st

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.blueprint.modules import (
    AsyncBoundary,
    Attributed,
    Joined,
    Module,
    StageModule,
    Wired,
    keep_right,
)
from streamactors.engine.marks.replay import Replay
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import GraphStage
from streamactors.stages.bases.later import LazyPart
from streamactors.stages.control.restart import RestartingFlow, RestartingSource
from streamactors.stages.control.retry import Retrying
from streamactors.stages.fold.grouping import Grouped
from streamactors.stages.hubs.broadcast_hub import BroadcastHubConsumer, BroadcastHubSink
from streamactors.stages.junctions.fan_in import Concat, Interleave, Merge, MergePreferred
from streamactors.stages.junctions.fan_out import Balance, Broadcast, Partition
from streamactors.stages.junctions.zipping import Zip
from streamactors.stages.rate.buffer import Buffer
from streamactors.stages.restart_settings import RestartSettings
from streamactors.stages.sinks.values import SinkStage
from streamactors.stages.sources.deferred import FromMaterializerSource
from streamactors.stages.sources.iterables import FromIterable, Range
from streamactors.stages.substreams.flat_map import FlatMapConcat, FlatMapMerge
from streamactors.stages.substreams.flat_map_prefix import FlatMapPrefix
from streamactors.stages.substreams.group_by import GroupBy
from streamactors.stages.substreams.split import SplitAfter, SplitWhen
from streamactors.stages.transform.expanding import MapConcat
from streamactors.stages.transform.mapping import Filter, Map


class Collect(SinkStage):
    """Materialize the list of all elements; `into` shows it while the stream runs."""

    def __init__(self, into: list[Any] | None = None) -> None:
        self._into = into

    def logic(self) -> SinkLogic:
        return _CollectLogic([] if self._into is None else self._into)


class _CollectLogic(SinkLogic):
    def __init__(self, elements: list[Any]) -> None:
        super().__init__()
        self.elements = elements

    def on_chunk(self, chunk: list[Any]) -> None:
        self.elements += chunk

    def result(self) -> list[Any]:
        return self.elements


def chain(*stages: GraphStage | Module) -> Module:
    """Join stages in a row; the last one's materialized value is kept."""
    modules = [stage if isinstance(stage, Module) else StageModule(stage) for stage in stages]
    joined = modules[0]
    for module in modules[1:]:
        joined = Joined(joined, module, keep_right)
    return joined


Element: TypeAlias = tuple[tuple[int, int], ...]
"""An element is the tuple of its origins, each (leaf, index): it tells what it stems from."""

_leaf_numbers = itertools.count()


class Leaf:
    """A replayable source of `n` elements; `hook(position)` hears what is done when marks are read."""

    def __init__(self, n: int) -> None:
        self.number = next(_leaf_numbers)
        self.n = n
        self.hook: Callable[[int], None] = lambda _: None
        self.elements: list[Element] = [((self.number, i),) for i in range(n)]

    def module(self, kind: int, follow: bool) -> Module:
        attributes = Attributes(replay=Replay(on_done=lambda position: self.hook(position))) if follow else NONE
        if kind == 0:
            number = self.number
            return chain(StageModule(Range(0, self.n), attributes), Map(lambda i: ((number, i),)))
        return StageModule(FromIterable(self.elements if kind == 1 else _Again(self.elements)), attributes)


class _Again:
    """An iterable that is no sequence and can be iterated again."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements)


@dataclass(frozen=True)
class Graph:
    """A source with known elements. `ordered` says whether their order is promised, `drained` whether every source is read to its
    end (a zip ends with its first input, which may be before the other has told that it has nothing left)."""

    module: Module
    elements: list[Element]
    ordered: bool
    leaves: tuple[Leaf, ...]
    drained: bool


def _number(x: Element) -> int:
    return sum(index for _, index in x)


def _mapped(g: Graph) -> Graph:
    return replace(g, module=chain(g.module, Map(lambda x: x + x)), elements=[x + x for x in g.elements])


def _filtered(g: Graph, k: int) -> Graph:
    keep = lambda x: _number(x) % k != 0  # noqa: E731
    return replace(g, module=chain(g.module, Filter(keep)), elements=[x for x in g.elements if keep(x)])


def _bounded(g: Graph, buffer: int | None) -> Graph:
    return replace(g, module=chain(g.module, AsyncBoundary(buffer)))


def _in_worker(g: Graph, buffer: int | None) -> Graph:
    """A process of its own for a map and a filter."""
    module = chain(
        g.module, AsyncBoundary(buffer, process=True), Map(lambda x: x + x), Filter(lambda x: x), AsyncBoundary(buffer)
    )
    return replace(g, module=module, elements=[x + x for x in g.elements if x])


def _chunked(g: Graph, n: int) -> Graph:
    return replace(g, module=Attributed(g.module, Attributes(max_chunk=n)))


def _fan_in(junction: GraphStage, *graphs: Graph) -> Module:
    parts = (*(g.module for g in graphs), StageModule(junction))
    last = len(graphs)
    return Wired(parts, tuple(((i, 0), (last, i)) for i in range(last)), (), ((last, 0),), lambda _: None)


def _joined(kind: str, a: Graph, b: Graph) -> Graph:
    leaves = a.leaves + b.leaves
    drained = a.drained and b.drained
    if kind == "concat":
        return Graph(_fan_in(Concat(2), a, b), a.elements + b.elements, a.ordered and b.ordered, leaves, drained)
    if kind == "zip":
        if a.ordered and b.ordered and len(a.elements) == len(b.elements):
            pairs = [x + y for x, y in zip(a.elements, b.elements, strict=True)]
            return Graph(chain(_fan_in(Zip(), a, b), Map(lambda pair: pair[0] + pair[1])), pairs, True, leaves, False)
        kind = "merge"
    if kind == "interleave" and a.ordered and b.ordered:
        out: list[Element] = []
        x, y = a.elements, b.elements
        for i in range(0, max(len(x), len(y)), 2):
            out += x[i : i + 2] + y[i : i + 2]
        return Graph(_fan_in(Interleave(2, 2), a, b), out, len(x) % 2 == 0 and len(y) % 2 == 0, leaves, drained)
    junction = MergePreferred(1) if kind == "preferred" else Merge(2)
    return Graph(_fan_in(junction, a, b), a.elements + b.elements, False, leaves, drained)


def _diamond(kind: str, g: Graph, boundary: bool) -> Graph:
    """One fan-out, a path with something in it, and a fan-in."""
    fan_out: GraphStage = {
        "broadcast-merge": Broadcast(2),
        "broadcast-zip": Broadcast(2),
        "balance-merge": Balance(2),
        "partition-merge": Partition(2, lambda x: _number(x) % 2),
    }[kind]
    fan_in: GraphStage = Zip() if kind == "broadcast-zip" else Merge(2)
    changes = kind != "balance-merge" and not boundary  # which path balance takes is not determined
    path: Module = StageModule(Map(lambda x: x + x)) if changes else StageModule(AsyncBoundary(4))
    change: Callable[[Element], Element] = (lambda x: x + x) if changes else (lambda x: x)
    module: Module = Wired(
        (g.module, StageModule(fan_out), path, StageModule(fan_in)),
        (((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (3, 0)), ((1, 1), (3, 1))),
        (),
        ((3, 0),),
        lambda _: None,
    )
    elements = g.elements
    if kind == "broadcast-merge":
        return Graph(module, [change(x) for x in elements] + elements, False, g.leaves, g.drained)
    if kind == "broadcast-zip":
        pairs = [change(x) + x for x in elements]
        return Graph(chain(module, Map(lambda pair: pair[0] + pair[1])), pairs, g.ordered, g.leaves, g.drained)
    if kind == "partition-merge":
        return Graph(module, [x if _number(x) % 2 else change(x) for x in elements], False, g.leaves, g.drained)
    return Graph(module, elements, False, g.leaves, g.drained)


def _flat(g: Graph, merge: bool, breadth: int) -> Graph:
    def inner(x: Element) -> Module:
        return chain(Range(0, _number(x) % 5), Map(lambda _: x))

    stage: GraphStage = FlatMapMerge(breadth, inner) if merge else FlatMapConcat(inner)
    elements = [x for x in g.elements for _ in range(_number(x) % 5)]
    ordered = g.ordered and (not merge or breadth == 1)
    return Graph(chain(g.module, stage), elements, ordered, g.leaves, g.drained)


def _substreams(g: Graph, keys: int, inside: str, breadth: int | None) -> Graph:
    """Each element through the substream of its number; the flow of the substreams changes no element."""
    inner: Module = {
        "map": StageModule(Map(tuple)),
        "boundary": chain(Map(tuple), AsyncBoundary(2), Filter(lambda x: True)),
        "lists": chain(Grouped(2), MapConcat(list)),
        "delayed": StageModule(Buffer(2)),
    }[inside]
    stage = GroupBy(lambda x: _number(x) % keys, keys).around(inner, breadth)
    return Graph(chain(g.module, stage), g.elements, g.ordered and keys == 1, g.leaves, g.drained)


def _cut(g: Graph, after: bool, breadth: int | None) -> Graph:
    kind = SplitAfter if after else SplitWhen
    stage = kind(lambda x: _number(x) % 3 == 0).around(chain(Grouped(3), MapConcat(list)), breadth)
    return Graph(chain(g.module, stage), g.elements, g.ordered and breadth == 1, g.leaves, g.drained)


def _retried(g: Graph) -> Graph:
    settings = RestartSettings("0.01ms", "0.01ms")
    return replace(g, module=chain(g.module, Retrying(settings, StageModule(Map(tuple)), lambda x, y: None)))


def _restarted(g: Graph, again: int) -> Graph:
    """The graph, begun again when it has completed; completion overtakes nothing. Its flow restarts, too, if it fails."""
    once = RestartSettings("0.01ms", "0.01ms", max_restarts=again, max_restarts_within="1h")
    source = RestartingSource(once, lambda: g.module, only_on_failures=False)
    flow = RestartingFlow(once, lambda: StageModule(Map(tuple)), only_on_failures=True)
    return replace(g, module=chain(source, flow), elements=g.elements * (1 + again))


def _later(g: Graph, kind: str) -> Graph:
    """Through a flow that is known only while the graph runs, or through another run; marks do not pass."""
    if kind == "lazy":
        return replace(g, module=chain(g.module, LazyPart("lazy_flow", lambda: StageModule(Map(tuple)))))
    if kind == "prefix":
        rest = chain(g.module, FlatMapPrefix(1, lambda _: StageModule(Map(tuple))))
        return replace(g, module=rest, elements=g.elements[1:]) if g.ordered else g

    def consumer(system: Any, _: Attributes) -> Module:
        exchange = materialize(chain(g.module, BroadcastHubSink(3)), system)
        return StageModule(BroadcastHubConsumer(exchange))

    module = StageModule(FromMaterializerSource(consumer))
    return replace(g, module=module, ordered=False)  # so that no zip cancels it: a hub without consumers waits for one


def graphs(
    size: int = 40, follow: bool = False, processes: bool = False, hubs: bool = False
) -> st.SearchStrategy[Graph]:
    """Return a strategy of random acyclic graphs with one open outlet. `follow` makes the sources read marks; with `processes` some stages
    run in worker processes, with `hubs` some in a run of their own, which does not end when its consumer cancels."""
    bounded = st.sampled_from([None, 1, 2, 16])

    def leaf(n: int, kind: int) -> Graph:
        made = Leaf(n)
        return Graph(made.module(kind, follow), made.elements, True, (made,), True)

    insides = st.sampled_from(["map", "boundary", "lists", "delayed"])
    diamonds = st.sampled_from(["broadcast-merge", "broadcast-zip", "balance-merge", "partition-merge"])
    return st.recursive(
        st.builds(leaf, st.integers(0, size), st.integers(0, 2)),
        lambda inner: st.one_of(
            st.builds(_mapped, inner),
            st.builds(_filtered, inner, st.integers(1, 3)),
            st.builds(_bounded, inner, bounded),
            *([st.builds(_in_worker, inner, bounded)] * 2 if processes else []),
            st.builds(_chunked, inner, st.integers(1, 3)),
            st.builds(_joined, st.sampled_from(["concat", "zip", "merge", "preferred", "interleave"]), inner, inner),
            st.builds(_diamond, diamonds, inner, st.booleans()),
            st.builds(_flat, inner, st.booleans(), st.integers(1, 3)),
            st.builds(_substreams, inner, st.integers(1, 4), insides, st.none()),
            st.builds(_cut, inner, st.booleans(), st.sampled_from([None, 1])),
            st.builds(_retried, inner),
            *(
                []
                if follow
                else [
                    st.builds(_later, inner, st.sampled_from(["lazy", "prefix", *(["hub"] if hubs else [])])),
                    st.builds(_restarted, inner, st.integers(0, 2)),
                ]
            ),
        ),
        max_leaves=6,
    )
