"""A graph as a program for executors: which stage runs where, and why a stage cannot run there.

Accepted is one Kafka source, a chain of steps that remember nothing, at most one window stage with more steps after it, and one sink that
Spark or its tasks can write to. Everything else is refused by the stage's name, with the way out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamactors.engine.blueprint.graph import StageNode
from streamactors.engine.blueprint.modules import AsyncBoundary, Module
from streamactors.engine.planning.plan import flat_of
from streamactors.errors import BuildError
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.sources.source_stage import ConsumerSourceStage
from streamactors.kafka.transactions.transactional_stage import TransactionalStage
from streamactors.kafka.writing.producer_stage import ProducerStage
from streamactors.spark.executors.graph_chain import WHO, GraphChain, chain_of, chains_around_key_by
from streamactors.spark.executors.program import Program, Side, Windows
from streamactors.spark.shipping.chain import ChainSegment, Diverted, Link, links_of
from streamactors.spark.sink.spark_sink import SparkSinkStage
from streamactors.stages.bases.passing import Identity
from streamactors.windows.stage.stage import WindowStage


@dataclass
class Translated:
    """A graph that can run on executors."""

    chain: GraphChain
    plan: ReadPlan
    program: Program
    sink: StageNode
    links: list[Link]
    late_sink: StageNode | None = None
    topic: ProducerStage | None = None
    """The producer that writes the results; None: Spark does."""
    late_topic: ProducerStage | None = None
    """The producer that writes late rows. None: Spark writes them, or the graph drops them."""
    producer: ProducerStage | None = None
    """One of the producers of results, late rows and dead letters; None: Spark writes all."""


def translate_source(module: Module, who: str) -> tuple[ReadPlan, Program, list[Link]]:
    """Return the program of a source without a sink, whose results Spark's own operators take. Raises BuildError as `translate`."""
    chain = chain_of(flat_of(module))
    nodes = chain.flat.nodes
    if chain.sides:
        raise BuildError(
            f'{who}: what divert_to (or dead_letters=…) takes out of the stream has no sink in Spark; use errors="emit", and take the Err '
            "elements from the DataFrame"
        )
    if chain.windows is not None:
        raise BuildError(
            f"{who}: the state of '{nodes[chain.windows].label}' would need a checkpoint of its own beside Spark's; write the results to a topic by "
            "graph.run(SparkExecutors(spark, checkpoint=…)), and read that here"
        )
    links = links_of([nodes[i] for i in chain.before], who, keeps_order=True)
    plan = checked_source(nodes[chain.source])
    return plan, Program(ChainSegment(tuple(links)), whole=plan.whole), links


def translate(module: Module) -> Translated:
    """Return the program of a closed graph of one chain. Raises BuildError naming the stage that cannot run on executors."""
    return translated(chain_of(flat_of(module)))


def translated(chain: GraphChain) -> Translated:
    """Return the program of a chain. Raises BuildError naming the stage that cannot run on executors."""
    nodes = chain.flat.nodes
    plan = checked_source(nodes[chain.source])
    topic = _producer_of(chain, chain.behind if chain.windows is not None else chain.before)
    late_topic = _producer_of(chain, chain.late, ends_in_sink=True) if chain.late else None
    before = links_of([nodes[i] for i in chain.before], WHO, keeps_order=True)
    behind = links_of([nodes[i] for i in chain.behind], WHO, keeps_order=True)
    late = links_of([nodes[i] for i in chain.late[:-1]], WHO, keeps_order=True)
    windows = None if chain.windows is None else _windows(nodes[chain.windows], plan)
    if topic is None:
        checked_sink(nodes[chain.sink])
    program = Program(ChainSegment(tuple(before)), windows, ChainSegment(tuple(behind)), whole=plan.whole)
    producer = topic or late_topic
    for leaving, steps in chain.sides:
        side, producer = _side(chain, leaving, steps, producer)
        program.sides += (side,)
    late_sink = nodes[chain.late[-1]] if chain.late else None
    if late_sink is not None:
        if late_topic is None:
            checked_sink(late_sink)
        elif topic is not None and late_topic.settings != topic.settings:
            raise BuildError(
                f"{WHO}: results and late rows share a transaction, and their producers have different settings"
            )
        program.late = ChainSegment(tuple(late))
    links = [*before, *behind, *late, *(link for side in program.sides for link in side.steps.links)]
    if chain.windows is not None:
        links.append(Link(nodes[chain.windows].stage, nodes[chain.windows].attributes))
    return Translated(chain, plan, program, nodes[chain.sink], links, late_sink, topic, late_topic, producer)


def _side(
    chain: GraphChain, leaving: Diverted, steps: list[int], other: ProducerStage | None
) -> tuple[Side, ProducerStage]:
    """Return what leaves the chain as part of the program, and its producer or the `other` one of the graph. It must end in a topic."""
    nodes = chain.flat.nodes
    sink = nodes[steps[-1]].label
    producer = _producer_of(chain, steps, ends_in_sink=True)
    if producer is None:
        raise BuildError(
            f"{WHO}: what divert_to takes out of the stream ends in '{sink}'; it must end in a topic, or use errors=\"emit\" and write the Err "
            "elements from the DataFrame"
        )
    if other is not None and producer.settings.bootstrap_servers != other.settings.bootstrap_servers:
        raise BuildError(
            f"{WHO}: '{producer.label}' writes to {producer.settings.bootstrap_servers} and '{other.label}' to "
            f"{other.settings.bootstrap_servers}; a transaction is of one cluster"
        )
    links = links_of([nodes[i] for i in steps[:-1]], WHO, keeps_order=True)
    return Side(leaving, ChainSegment(tuple(links))), other or producer


def _producer_of(chain: GraphChain, steps: list[int], *, ends_in_sink: bool = False) -> ProducerStage | None:
    """Take the producer out of the steps before a sink; None if they do not end in one.

    Raises BuildError for a producer that a task cannot replace."""
    nodes = chain.flat.nodes
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


def checked_source(node: StageNode) -> ReadPlan:
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


def checked_sink(node: StageNode) -> None:
    """Raise BuildError for a sink whose effect or value would be in this process."""
    if not isinstance(node.stage, SparkSinkStage):
        raise BuildError(
            f"{WHO}: the effect or value of sink '{node.label}' is in this process, and the rows are not; end in SparkSink.foreach_batch, "
            "SparkSink.parquet or Transactional.sink"
        )
    if node.stage.target.settings.dead_letters is not None:
        raise BuildError(
            f"{WHO}: dead_letters of '{node.label}' is a function of this process, and rows are checked on executors; check them in a map "
            "before the sink"
        )


def _windows(node: StageNode, plan: ReadPlan) -> Windows:
    stage = node.stage
    assert isinstance(stage, WindowStage)
    if plan.subscription.several_topics and not plan.until_end and stage.factory.intake.max_task_idle_ms != 0:
        raise BuildError(
            f"{WHO}: '{node.label}' has a max_task_idle, and a batch waits for no topic: to a batch, a topic is silent when the broker has no more "
            'of its records; leave max_task_idle out, or read with until="end"'
        )
    return Windows(
        replace(stage.factory, on_task=None),
        node.attributes.decider,
        plan.application or plan.settings.group_id or "",
        0,
        node.label,
    )


def explained(module: Module) -> str:
    """Return a table: each stage of a graph, and where it runs on a cluster or why it cannot."""
    flat = flat_of(module)
    two_chains = chains_around_key_by(flat)
    try:
        chains = [
            chain_of(flat, part) for part in ((None,) if two_chains is None else (two_chains.first, two_chains.second))
        ]
        lines = [line for chain in chains for line in _explained(chain)]
    except BuildError as error:
        return f"cannot run: {error}"
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label:<{width}}  {where}" for label, where in lines)


def _explained(chain: GraphChain) -> list[tuple[str, str]]:
    nodes = chain.flat.nodes
    topics: dict[int, ProducerStage] = {}
    for steps_of, sink in (
        (chain.behind if chain.windows is not None else chain.before, chain.sink),
        (chain.late, (chain.late or [-1])[-1]),
    ):
        producer = _producer_of(chain, steps_of, ends_in_sink=steps_of is chain.late) if steps_of else None
        if producer is not None:
            topics[sink] = producer
    steps = {*chain.before, *chain.behind, *chain.late[:-1]}
    order = [
        chain.source,
        *chain.before,
        *([] if chain.windows is None else [chain.windows]),
        *chain.behind,
        chain.sink,
        *chain.late,
    ]
    plan: ReadPlan | None = None
    lines: list[tuple[str, str]] = []
    for i in order:
        node = nodes[i]
        try:
            if i == chain.source:
                plan = checked_source(node)
                where = f"executors: one task per partition reads its range of {plan.subscription}"
            elif i == chain.windows:
                where = "executors: windows, their state in the checkpoint"
                if plan is not None:
                    _windows(node, plan)
            elif i in steps and isinstance(getattr(node.stage, "fn", None), Diverted):
                leaving, side = next(each for each in chain.sides if each[0] is getattr(node.stage, "fn", None))
                _side(chain, leaving, side.copy(), next(iter(topics.values()), None))
                where = "executors: what leaves here is written in the task's transaction"
            elif i in steps:
                where = _where(node)
            elif i in topics:
                lines.append((topics[i].label, _where_written(topics[i])))
                continue
            else:
                checked_sink(node)
                where = "Spark: the results are a DataFrame, batch by batch"
        except BuildError as error:
            where = f"cannot run: {str(error).removeprefix(f'{WHO}: ')}"
        lines.append((node.label, where))
    return lines


def _where_written(producer: ProducerStage) -> str:
    if isinstance(producer, TransactionalStage) and producer.fallback:
        return f"executors: the first query writes {producer.settings.transactional_id}, and the second query reads it"
    return "executors: one transaction per task, with the position after its range"


def _where(node: StageNode) -> str:
    if isinstance(node.stage, (Identity, AsyncBoundary)):
        return "dropped: it changes no element, and a task is one thread"
    (link,) = links_of([node], WHO, keeps_order=True)
    return "executors: generated loop" if ChainSegment((link,)).fused else "executors: on the engine within the task"
