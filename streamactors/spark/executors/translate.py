"""A graph as a program for executors: which stage runs where, and why a stage cannot run there.

Accepted is one Kafka source, a chain of steps that remember nothing, at most one window stage with more steps behind it, and one sink that
Spark or its tasks can write to. Everything else is refused by the stage's name, with the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from streamactors.engine.blueprint.graph import Flat, Node
from streamactors.engine.blueprint.modules import AsyncBoundary, Module
from streamactors.engine.blueprint.plan import flat_of
from streamactors.errors import BuildError
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.sources.source_stage import ConsumerSourceStage
from streamactors.kafka.writing.producer_stage import ProducerStage
from streamactors.spark.executors.program import Program, Side, Windows
from streamactors.spark.shipping.chain import ChainSegment, Diverted, Link, links_of
from streamactors.spark.sink.spark_sink import SparkSinkStage
from streamactors.stages.bases.passing import Identity
from streamactors.stages.junctions.fan_out import DivertTo
from streamactors.stages.transform.mapping import Filter
from streamactors.windows.definitions.blueprint import AggregateStep
from streamactors.windows.stage.stage import WindowStage

WHO: Final = "SparkExecutors"


@dataclass
class Way:
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


@dataclass
class Translated:
    """A graph that can run on executors."""

    way: Way
    plan: ReadPlan
    program: Program
    sink: Node
    links: list[Link]
    late_sink: Node | None = None
    topic: ProducerStage | None = None
    """The producer that writes the results; None: Spark does."""


def translate_source(module: Module, who: str) -> tuple[ReadPlan, Program, list[Link]]:
    """Return the program of a source without a sink, whose results Spark's own operators take. Raises BuildError as `translate`."""
    way = way_of(module)
    nodes = way.flat.nodes
    if way.sides:
        raise BuildError(
            f'{who}: what divert_to (or dead_letters=…) takes out of the stream has no sink in Spark; use errors="emit", and take the Err '
            "elements from the DataFrame"
        )
    if way.windows is not None:
        raise BuildError(
            f"{who}: the state of '{nodes[way.windows].label}' would need a checkpoint of its own beside Spark's; write the results to a topic by "
            "graph.run(SparkExecutors(spark, checkpoint=…)), and read that here"
        )
    links = links_of([nodes[i] for i in way.before], who, keeps_order=True)
    return checked_source(nodes[way.source]), Program(ChainSegment(tuple(links))), links


def translate(module: Module) -> Translated:
    """Return the program of a closed graph. Raises BuildError naming the stage that cannot run on executors."""
    way = way_of(module)
    nodes = way.flat.nodes
    plan = checked_source(nodes[way.source])
    topic = _producer_of(way, way.behind if way.windows is not None else way.before)
    late_topic = _producer_of(way, way.late, ends_in_sink=True) if way.late else None
    before = links_of([nodes[i] for i in way.before], WHO, keeps_order=True)
    behind = links_of([nodes[i] for i in way.behind], WHO, keeps_order=True)
    late = links_of([nodes[i] for i in way.late[:-1]], WHO, keeps_order=True)
    windows = None if way.windows is None else _windows(nodes[way.windows], plan)
    if topic is None:
        checked_sink(nodes[way.sink])
    program = Program(ChainSegment(tuple(before)), windows, ChainSegment(tuple(behind)))
    program.sides = tuple(_side(way, leaving, steps, topic) for leaving, steps in way.sides)
    late_sink = nodes[way.late[-1]] if way.late else None
    if late_sink is not None:
        if (topic is None) is not (late_topic is None):
            raise BuildError(
                f"{WHO}: results end in '{nodes[way.sink].label}' and late rows in '{late_sink.label}'; both must end in Spark, or both in topics"
            )
        if topic is None:
            checked_sink(late_sink)
        elif late_topic is not None and late_topic.settings != topic.settings:
            raise BuildError(
                f"{WHO}: results and late rows share a transaction, and their producers have different settings"
            )
        program.late = ChainSegment(tuple(late))
    links = [*before, *behind, *late, *(link for side in program.sides for link in side.steps.links)]
    if way.windows is not None:
        links.append(Link(nodes[way.windows].stage, nodes[way.windows].attributes))
    return Translated(way, plan, program, nodes[way.sink], links, late_sink, topic)


def _side(way: Way, leaving: Diverted, steps: list[int], topic: ProducerStage | None) -> Side:
    """Return what leaves the chain as part of the program. It must end in a topic, like the results."""
    nodes = way.flat.nodes
    sink = nodes[steps[-1]].label
    producer = _producer_of(way, steps, ends_in_sink=True)
    if topic is None or producer is None:
        raise BuildError(
            f"{WHO}: what divert_to (or dead_letters=…) takes out of the stream ends in '{producer.label if producer else sink}', and the "
            'results in Spark; both must end in topics, or use errors="emit" and write the Err elements from the DataFrame'
        )
    if producer.settings.bootstrap_servers != topic.settings.bootstrap_servers:
        raise BuildError(
            f"{WHO}: '{producer.label}' writes to {producer.settings.bootstrap_servers} and the results to "
            f"{topic.settings.bootstrap_servers}; a transaction is of one cluster"
        )
    return Side(leaving, ChainSegment(tuple(links_of([nodes[i] for i in steps[:-1]], WHO, keeps_order=True))))


def _producer_of(way: Way, steps: list[int], *, ends_in_sink: bool = False) -> ProducerStage | None:
    """Take the producer out of the steps before a sink; None if they do not end in one.

    Raises BuildError for a producer that a task cannot replace."""
    nodes = way.flat.nodes
    last = steps[-2:-1] if ends_in_sink else steps[-1:]
    stage = nodes[last[0]].stage if last else None
    if not isinstance(stage, ProducerStage):
        return None
    if stage.envelopes or stage.results or stage.producer is not None:
        raise BuildError(
            f"{WHO}: '{stage.label}' gives results, or shares a producer of this process; end in Transactional.sink(…) or Producer.plain_sink(…)"
        )
    steps.remove(last[0])
    return stage


def way_of(module: Module) -> Way:
    """Return the nodes of a graph in the order of its stream. Raises BuildError for a graph that is no chain."""
    flat = flat_of(module)
    sources = [i for i, node in enumerate(flat.nodes) if not node.stage.shape.inlets]
    if len(sources) != 1:
        named = " and ".join(f"'{flat.nodes[i].label}'" for i in sources) or "none"
        raise BuildError(
            f"{WHO} runs graphs of one source, and this one has {named}; behind key_by, through_topic or a merge use two graphs: "
            "one that writes a topic, and one that reads it"
        )
    following: dict[tuple[int, int], int] = {source: target for source, (target, _) in flat.edges}
    way = Way(flat, sources[0], [], None, [], -1, [], [])
    here: int | None = following.get((sources[0], 0))
    while here is not None:
        stage = flat.nodes[here].stage
        if isinstance(stage, WindowStage):
            if way.windows is not None:
                raise BuildError(
                    f"{WHO}: '{flat.nodes[here].label}' follows other windows; write the results of the first to a topic, "
                    "and read it in a graph of its own"
                )
            way.windows = here
            if len(stage.shape.outlets) > 1:
                way.late = list(_to_the_end(flat, following, following[here, 1]))
        elif isinstance(stage, DivertTo):
            way.sides.append((_diverting(flat, here), list(_to_the_end(flat, following, following[here, 1]))))
            (way.before if way.windows is None else way.behind).append(here)
        elif len(stage.shape.outlets) > 1 or len(stage.shape.inlets) > 1:
            raise _forks(flat.nodes[here])
        elif not stage.shape.outlets:
            way.sink = here
        else:
            (way.before if way.windows is None else way.behind).append(here)
        here = following.get((here, 0))
    return way


def _diverting(flat: Flat, here: int) -> Diverted:
    """Replace the stage that diverts by a filter that keeps what leaves; return its predicate."""
    node = flat.nodes[here]
    assert isinstance(node.stage, DivertTo)
    leaving = Diverted(node.stage.fn)
    filter_: Filter[Any] = Filter(leaving)
    filter_.name = node.label
    flat.nodes[here] = Node(filter_, node.attributes)
    return leaving


def _to_the_end(flat: Flat, following: dict[tuple[int, int], int], here: int | None) -> Iterator[int]:
    while here is not None:
        shape = flat.nodes[here].stage.shape
        if len(shape.inlets) > 1 or len(shape.outlets) > 1:
            raise _forks(flat.nodes[here])
        yield here
        here = following.get((here, 0))


def _forks(node: Node) -> BuildError:
    return BuildError(
        f"{WHO}: stage '{node.label}' joins or splits streams, and a task runs a chain; use one graph for each branch, or write a topic in "
        "one graph and read it in another"
    )


def checked_source(node: Node) -> ReadPlan:
    """Return what a source reads. Raises BuildError for a source that executors cannot read."""
    stage = node.stage
    if not isinstance(stage, ConsumerSourceStage):
        raise BuildError(
            f"{WHO}: source '{node.label}' has no positions that executors can read from; write it to a topic, and read that with "
            "Consumer.source, Consumer.records or Consumer.plain_source"
        )
    plan = stage.plan
    if plan.commits not in (Commits.MARKS, Commits.NOBODY) or plan.convert is not None:
        raise BuildError(
            f"{WHO}: source '{node.label}' commits in a way of its own, and here Spark's checkpoint says what is done; "
            "use Consumer.source, Consumer.records or Consumer.plain_source"
        )
    if plan.link is not None:
        raise BuildError(
            f"{WHO}: source '{node.label}' shares a consumer of this process, and every task has one of its own; use Consumer.source, "
            "Consumer.records or Consumer.plain_source"
        )
    return plan


def checked_sink(node: Node) -> None:
    """Raise BuildError for a sink whose effect or value would be in this process."""
    if not isinstance(node.stage, SparkSinkStage):
        raise BuildError(
            f"{WHO}: the effect or value of sink '{node.label}' is in this process, and the rows are not; end in SparkSink.foreach_batch, "
            "SparkSink.parquet or Transactional.sink"
        )
    if node.stage.settings.bad_rows is not None:
        raise BuildError(
            f"{WHO}: dead_letters of '{node.label}' is a function of this process, and rows are checked on executors; check them in a map "
            "before the sink"
        )


def _windows(node: Node, plan: ReadPlan) -> Windows:
    stage = node.stage
    assert isinstance(stage, WindowStage)
    blueprint = stage.factory.blueprint
    if plan.subscription.several_topics and not plan.until_end and blueprint.intake.max_task_idle_ms != 0:
        raise BuildError(
            f"{WHO}: '{node.label}' has a max_task_idle, and a batch waits for no topic: a topic is silent for it when the broker has no more "
            'of its records; leave max_task_idle out, or read with until="end"'
        )
    steps = tuple(
        replace(step, windowing=replace(step.windowing, late=None)) if isinstance(step, AggregateStep) else step
        for step in blueprint.steps
    )  # the sink of late rows stays in this process
    return Windows(
        replace(stage.factory, blueprint=replace(blueprint, steps=steps), on_task=None),
        node.attributes.decider,
        plan.application or plan.settings.group_id or "",
        0,
        node.label,
    )


def explained(module: Module) -> str:
    """Return a table: each stage of a graph, and where it runs on a cluster or why it cannot."""
    try:
        way = way_of(module)
    except BuildError as error:
        return f"cannot run: {error}"
    nodes = way.flat.nodes
    topics: dict[int, ProducerStage] = {}
    try:
        for steps_of, sink in (
            (way.behind if way.windows is not None else way.before, way.sink),
            (way.late, (way.late or [-1])[-1]),
        ):
            producer = _producer_of(way, steps_of, ends_in_sink=steps_of is way.late) if steps_of else None
            if producer is not None:
                topics[sink] = producer
    except BuildError as error:
        return f"cannot run: {error}"
    steps = {*way.before, *way.behind, *way.late[:-1]}
    order = [way.source, *way.before, *([] if way.windows is None else [way.windows]), *way.behind, way.sink, *way.late]
    plan: ReadPlan | None = None
    lines = []
    for i in order:
        node = nodes[i]
        try:
            if i == way.source:
                plan = checked_source(node)
                where = f"executors: one task per partition reads its range of {plan.subscription}"
            elif i == way.windows:
                where = "executors: windows, their state in the checkpoint"
                if plan is not None:
                    _windows(node, plan)
            elif i in steps and isinstance(getattr(node.stage, "fn", None), Diverted):
                leaving, side = next(each for each in way.sides if each[0] is getattr(node.stage, "fn", None))
                _side(way, leaving, side.copy(), topics.get(way.sink))
                where = "executors: what leaves here is written in the task's transaction"
            elif i in steps:
                where = _where(node)
            elif i in topics:
                lines.append(
                    (topics[i].label, "executors: one transaction per task, with the position behind its range")
                )
                continue
            else:
                checked_sink(node)
                where = "Spark: the results are a DataFrame, batch by batch"
        except BuildError as error:
            where = f"cannot run: {str(error).removeprefix(f'{WHO}: ')}"
        lines.append((node.label, where))
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label:<{width}}  {where}" for label, where in lines)


def _where(node: Node) -> str:
    if isinstance(node.stage, (Identity, AsyncBoundary)):
        return "dropped: it changes no element, and a task is one thread"
    (link,) = links_of([node], WHO, keeps_order=True)
    return "executors: generated loop" if ChainSegment((link,)).fused else "executors: on the engine within the task"
