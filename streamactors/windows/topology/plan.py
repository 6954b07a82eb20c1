"""The plan of a task: the operators of a topology, wired for one task.

Owner: WindowTask. A row goes depth first: through everything after an operator before the next row. Where that cannot be
seen, a list of rows goes as a whole. It can be seen after a topic whose rows reach a node by two ways, meet a state that
they changed themselves, or return by a repartition topic in memory: there each row goes alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from streamactors.windows.joins.lookup import LookupJoin
from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.record_steps import AsRecords
from streamactors.windows.operators.stream_steps import PassOn
from streamactors.windows.processors.operator import ProcessorOperator
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.record import Record
from streamactors.windows.tables.expiring import ExpiringTable
from streamactors.windows.topology.edges import TaskEntrance
from streamactors.windows.topology.model import Build, TopologyNode


@dataclass(eq=False, slots=True)
class Step:
    """One operator of a task and the steps that take its results.

    `whole`: all results go to each of `targets` at once; else each result goes to all targets before the next one does."""

    operator: Operator
    targets: list[Step] = field(default_factory=list)
    whole: bool = True
    process: Callable[[list[Any], list[Any]], None] = field(init=False)
    waits: bool = field(init=False)
    """The operator must be told when everything after it has processed its results."""
    passes: Callable[[list[Any]], bool] | None = field(init=False)
    """Returns True for rows that are the operator's results unchanged."""
    only: Step | None = None
    """The one step after it, if `run` may continue there without a deeper call."""

    def __post_init__(self) -> None:
        self.process = self.operator.process
        self.waits = type(self.operator).forwarded is not Operator.forwarded
        self.passes = self.operator.passes if isinstance(self.operator, AsRecords) else None


class Way(NamedTuple):
    """How the rows of a topic enter a task. `alone`: each row goes alone. `time`: calls what is due after each row, if the task has schedules or timers.
    `after`: the step after an entrance that would only check the row."""

    step: Step
    alone: bool
    time: TaskTime | None
    after: Step | None

    def enter(self, row: Any) -> None:
        """Pass one row through the task."""
        step, _, time, after = self
        if after is not None and type(row) is Record and row.timestamp >= 0:
            run(after, [row])  # what the entrance would do with it
            return
        run(step, [row])
        if time is not None:
            time.after_row()


class TopologyPlan:
    """The steps of one task. `entrances`: the ways in, by topic.

    `first_lookups`: the lookups directly after a topic, which can ask for the keys of many rows though each row goes alone."""

    def __init__(self, build: Build) -> None:
        topology = build.topology
        self.steps = {node: Step(build.of(node)) for node in topology.nodes if node.carrier(build) is node}
        for node, step in self.steps.items():
            children = node.children
            while len(children) == 1 and children[0].carrier(build) is node:
                [carried] = children
                children = carried.children
            step.targets = [self._after_merges(child) for child in children]
            if len(step.targets) == 1 and not step.waits:
                [step.only] = step.targets
            if isinstance(step.operator, ProcessorOperator):
                step.operator.bind(
                    partial(_pass_on, step),
                    {child.name: partial(_pass_to, self.steps[child]) for child in node.children},
                )
            elif isinstance(step.operator, ExpiringTable):
                step.operator.bind(partial(hand_on, step))
        in_memory = build.outbox.queues is not None
        self.entrances: dict[str, Way] = {}
        for topic, source in topology.sources.items():
            alone, crossed = _goes_alone(source, in_memory, build.keeps_time)
            for node in crossed:
                self.steps[node].whole = False
            first = self._after_merges(source)
            time, after = None, None
            if isinstance(first.operator, TaskEntrance):
                time = first.operator.time
                after = first.only if time is None else None
            self.entrances[topic] = Way(first, alone, time, after)
        self.first_lookups: list[tuple[str, LookupJoin]] = []
        for topic, source in topology.sources.items():
            for child in source.children:
                operator = self.steps[child].operator
                if isinstance(operator, LookupJoin):
                    self.first_lookups.append((topic, operator))

    def _after_merges(self, node: TopologyNode) -> Step:
        """Return the step of a node; of a merge of streams with one step after it, that step."""
        step = self.steps[node]
        while type(step.operator) is PassOn and len(node.children) == 1:
            [node] = node.children
            step = self.steps[node]
        return step


def _goes_alone(source: TopologyNode, in_memory: bool, keeps_time: bool) -> tuple[bool, list[TopologyNode]]:
    """Return whether the rows of a source are processed one by one, and the nodes that give each result to all children before the next result."""
    ways: dict[TopologyNode, int] = {}
    order: list[TopologyNode] = []

    def walk(node: TopologyNode) -> None:
        ways[node] = ways.get(node, 0) + 1
        if ways[node] == 1:
            order.append(node)
            for child in node.children:
                walk(child)

    walk(source)
    reached = set(order)
    alone = keeps_time or any(
        ways[node] > 1 or node.by_row or (in_memory and node.goes_round) or not reached.isdisjoint(node.reads)
        for node in order
    )
    return alone, [node for node in order if alone and len(node.children) > 1]


def _pass_on(step: Step, record: Any) -> None:
    """Pass a record that a processor forwards to all steps after it."""
    for target in step.targets:
        run(target, [record])


def _pass_to(target: Step, record: Any) -> None:
    run(target, [record])


def run(step: Step, rows: list[Any]) -> None:
    """Pass rows through an operator and everything after it.

    When an operator raises, the results of the rows before still pass; if they raise, too, that error counts, because their rows came first."""
    while True:
        out: list[Any] = []
        if step.passes is not None and step.passes(rows):
            out = rows
        else:
            try:
                step.process(rows, out)
            except Exception:
                if out:
                    forward(step, out)
                raise
        if not out:
            if step.waits:
                step.operator.forwarded()
            return
        only = step.only
        if only is None:
            hand_on(step, out)
            return
        step, rows = only, out  # a chain needs no deeper call


def hand_on(step: Step, rows: list[Any]) -> None:
    """Pass results of an operator to the operators after it, and tell the operator when they have processed them."""
    forward(step, rows)
    if step.waits:
        step.operator.forwarded()


def forward(step: Step, rows: list[Any]) -> None:
    """Pass results of an operator to the operators after it."""
    targets = step.targets
    if step.whole or len(targets) < 2:
        for target in targets:
            run(target, rows)
    else:
        for row in rows:
            for target in targets:
                run(target, [row])
