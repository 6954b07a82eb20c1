"""The chain of a graph: its nodes in the order of its stream.

A task runs a chain. A graph of one source is one chain, with branches for late rows and for what divert_to takes out. A graph with
`key_by` is two chains: the first one writes a topic, and the second one reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from streamactors.engine.blueprint.graph import Flat, StageNode
from streamactors.errors import BuildError
from streamactors.kafka.sources.source_stage import ConsumerSourceStage
from streamactors.kafka.state.input_end import WatchEnd
from streamactors.kafka.state.repartition import RepartitionRun
from streamactors.spark.shipping.chain import Diverted
from streamactors.stages.control.kill_switch import KillSwitchStage
from streamactors.stages.junctions.sides_first import DivertTo
from streamactors.stages.transform.mapping import Filter
from streamactors.stages.watching.observing import WatchTermination
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.chain import Chain
from streamactors.windows.topology.model import Topology
from streamactors.windows.topology.nodes.join_nodes import LookupNode
from streamactors.windows.topology.nodes.processor_nodes import ProcessorNode

WHO: Final = "SparkExecutors"


@dataclass
class GraphChain:
    """The nodes of a graph in the order of the stream. `late`: those that late rows take, the last one a sink."""

    flat: Flat
    source: int
    before: list[int]
    windows: int | None
    behind: list[int]
    sink: int
    late: list[int]
    sides: list[tuple[Diverted, list[int]]]
    """What leaves the chain (dead letters), and the nodes that it takes, the last one a sink."""


@dataclass(frozen=True)
class TwoChains:
    """A graph with key_by: the nodes of its two chains, and what the run does between them."""

    first: frozenset[int]
    second: frozenset[int]
    between: RepartitionRun


def chains_around_key_by(flat: Flat) -> TwoChains | None:
    """Return the two chains of a graph with one key_by, without the stages that couple them in one process; None for every other graph."""
    runs = [argument[1] for op, argument in flat.mat if op == "wired" and isinstance(argument[1], RepartitionRun)]
    if len(runs) != 1:
        return None
    (between,) = runs
    (reading,) = (
        i
        for i, node in enumerate(flat.nodes)
        if isinstance(node.stage, ConsumerSourceStage) and node.stage.plan.settings is between.reading
    )
    second = {reading}
    for _ in flat.nodes:  # edges are in no order
        second |= {target for (source, _), (target, _) in flat.edges if source in second}
    following = {source: target for (source, _), (target, _) in flat.edges}
    watching = next(i for i, node in enumerate(flat.nodes) if isinstance(node.stage, WatchEnd) and i not in second)
    decoding = following[reading]
    own = {watching, following[watching], following[decoding], following[following[decoding]]}
    assert all(isinstance(flat.nodes[i].stage, (WatchEnd, KillSwitchStage, WatchTermination)) for i in own)
    return TwoChains(frozenset(range(len(flat.nodes))) - second - own, frozenset(second - own), between)


def chain_of(flat: Flat, members: frozenset[int] | None = None) -> GraphChain:
    """Return the nodes of a graph, or of one of its two chains, in the order of the stream. Raises BuildError for a graph that is no
    chain."""
    sources = [
        i for i, node in enumerate(flat.nodes) if not node.stage.shape.inlets and (members is None or i in members)
    ]
    if len(sources) != 1:
        named = " and ".join(f"'{flat.nodes[i].label}'" for i in sources) or "none"
        raise BuildError(
            f"{WHO} runs graphs of one source, and this one has {named}; after a second key_by, through_topic or a merge use two graphs: "
            "one that writes a topic, and one that reads it"
        )
    following: dict[tuple[int, int], int] = {source: target for source, (target, _) in flat.edges}
    chain = GraphChain(flat, sources[0], [], None, [], -1, [], [])
    here: int | None = following.get((sources[0], 0))
    while here is not None:
        stage = flat.nodes[here].stage
        if members is not None and here not in members:
            pass
        elif isinstance(stage, WindowStage):
            if not isinstance(stage.factory.topology, Chain):
                raise _topology(stage.factory.topology)
            if any(isinstance(step, ProcessorNode | LookupNode) for step in stage.factory.topology.nodes):
                raise BuildError(
                    f"{WHO}: keyed, process and join_lookup run in one process, where the wall clock moves their stores; run the graph by "
                    "graph.run(), or use group_by_key().aggregate(…)"
                )
            if chain.windows is not None:
                raise BuildError(
                    f"{WHO}: '{flat.nodes[here].label}' follows other windows; write the results of the first to a topic, "
                    "and read it in a graph of its own"
                )
            chain.windows = here
            if len(stage.shape.outlets) > 1:
                chain.late = list(_to_the_end(flat, following, following[here, 1]))
        elif isinstance(stage, DivertTo):
            chain.sides.append((_diverting(flat, here), list(_to_the_end(flat, following, following[here, 1]))))
            (chain.before if chain.windows is None else chain.behind).append(here)
        elif len(stage.shape.outlets) > 1 or len(stage.shape.inlets) > 1:
            raise _forks(flat.nodes[here])
        elif not stage.shape.outlets:
            chain.sink = here
        else:
            (chain.before if chain.windows is None else chain.behind).append(here)
        here = following.get((here, 0))
    return chain


def _topology(topology: Topology) -> BuildError:
    topics = ", ".join(topic for topic, source in topology.sources.items() if not source.internal)
    return BuildError(
        f"{WHO}: Consumer.topics (joins, tables and streams of topics: {topics}) runs in one process, where its tasks share repartition topics and "
        "global tables; run it by graph.run(), or read each topic as a DataFrame with SparkSource.frame and join the DataFrames in Spark"
    )


def _diverting(flat: Flat, here: int) -> Diverted:
    """Replace the stage that diverts by a filter that keeps what leaves; return its predicate."""
    node = flat.nodes[here]
    assert isinstance(node.stage, DivertTo)
    leaving = Diverted(node.stage.fn)
    filter_: Filter[Any] = Filter(leaving)
    filter_.name = node.label
    flat.nodes[here] = StageNode(filter_, node.attributes)
    return leaving


def _to_the_end(flat: Flat, following: dict[tuple[int, int], int], here: int | None) -> Iterator[int]:
    while here is not None:
        shape = flat.nodes[here].stage.shape
        if len(shape.inlets) > 1 or len(shape.outlets) > 1:
            raise _forks(flat.nodes[here])
        yield here
        here = following.get((here, 0))


def _forks(node: StageNode) -> BuildError:
    return BuildError(
        f"{WHO}: stage '{node.label}' joins or splits streams, and a task runs a chain; use one graph for each branch, or write a topic in "
        "one graph and read it in another"
    )
