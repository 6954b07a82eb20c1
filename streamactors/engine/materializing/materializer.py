"""The materializer: makes a run of a blueprint, or runs an inner graph inside a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamactors.actors.local_system import SystemStopped
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.boundary import BoundaryIn, BoundaryOut, connect
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.island import ALONE, Island, StartIsland
from streamactors.engine.island.run import Run
from streamactors.engine.logic import Logic, bind
from streamactors.engine.marks.marks import TimerResults
from streamactors.engine.materializing.restarted_run import Built, RestartedRun
from streamactors.engine.planning.mark_plan import emits
from streamactors.engine.planning.plan import Plan, plan_of
from streamactors.engine.stage import ChunkLogic, GraphStage, remembers
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_UNHEARD = (
    "a source inside '{}' reads marks, and marks cannot leave the graph inside this stage; "
    "begin the outer graph with the source, put it into a RestartSource, or run it in a graph of its own"
)


def _build(
    run: Run, plan: Plan, parent: Logic | None, islands: list[Island]
) -> tuple[list[Any], list[Logic], list[Connection]]:
    """Make the logics and the connections of a plan, and append the new islands to `islands`, also when it raises.

    With a `parent` the plan's first island is the island of that stage."""
    outer = run.source_of.get(parent) if parent is not None else None
    marks = plan.marks
    handed_out = (
        parent is not None
        and (run.marks_active or parent.replaces_inside)
        and any(node.stage.traits.emitter_in(run) is not None for node in plan.nodes)
    )
    if marks.active:
        if parent is not None and outer is None and not handed_out:
            raise BuildError(_UNHEARD.format(parent.name))
        run.marks_active = True
    followed = marks.followed and parent is None and run.trace is not None
    if followed:
        run.marks_active = run.only_traced = True
    marked = marks.active or followed or outer is not None or handed_out
    home = [] if parent is None else [parent.interpreter]
    islands += [Island(run, run.runs.watch, name) for name in plan.islands[len(home) :]]
    interpreters = home + [island.interpreter for island in islands]
    parts = plan.parts
    base = run.source_base
    run.source_base += len(parts)
    if run.trace is None:
        connections = [Connection(interpreters[island]) for island in plan.connections]
    else:
        from streamactors.engine.materializing.traced_plan import traced_connections

        connections = traced_connections(plan, interpreters, inside=parent is not None)
    logics: list[Logic] = []
    values: list[Any] = []
    for part in parts:
        logic, value = part.create(part.attributes)
        logic.attributes = part.attributes
        logic.name = part.name
        if parent is not None:
            logic.inside_of = parent.name
        logics.append(logic)
        values.append(value)
    if followed and run.trace is not None:
        from streamactors.engine.materializing.traced_plan import end_ways

        end_ways(plan, run.trace, logics)
    if marked:
        _prepare_marks(run, plan, base, outer, logics, connections)
        if parent is not None and (outer is not None or parent.replaces_inside):
            run.inside(parent, logics)
    for out_half, in_half in plan.boundaries:
        connect(logics[out_half], logics[in_half])
    for part, logic in zip(parts, logics, strict=True):
        bind(
            logic,
            interpreters[part.island],
            [connections[number] for number in part.inlets],
            [connections[number] for number in part.outlets],
        )
    for fork, sinks in plan.sides.items():
        logics[fork].wait_for_side_sinks([logics[sink] for sink in sinks])
    for tap in run.runs.taps:
        tap(logics)
    return values, logics, connections[len(plan.edges) :]


def _give_up(islands: list[Island]) -> None:
    """The run was not built: end the actors of its islands."""
    for island in islands:
        island.give_up()


def _prepare_marks(
    run: Run,
    plan: Plan,
    base: int,
    outer: tuple[int, Any] | None,
    logics: list[Logic],
    connections: list[Connection],
) -> None:
    """Register the sources and sinks of a plan, and set for each connection the sources whose marks it carries.

    Set for each stage of one function, too, whether marks pass: its class says so."""
    marks = plan.marks

    handed_out = {
        i: known for i, node in enumerate(plan.nodes) if (known := node.stage.traits.emitter_in(run)) is not None
    }

    def source_id(node: int) -> Any:
        """Return the name of a source in marks. Inside a stage such as RestartSource it is the name of this stage."""
        if node in handed_out:
            return handed_out[node][0]
        if outer is not None:
            return outer[0]
        return TimerResults(base + node) if plan.nodes[node].stage.traits.marks_timer_results else base + node

    for number, edge in enumerate(plan.edges):
        carried = marks.carries.get(edge)
        if carried:
            connections[number].carries = frozenset(map(source_id, carried))
    for i, node in enumerate(plan.nodes):
        logic = logics[i]
        if isinstance(logic, ChunkLogic):  # made of one function: its stage says whether marks pass
            logic.passes_marks = node.stage.handling.passes
        if not _begins_anew(node.stage):
            run.begins_anew = False
        if emits(node.stage.traits, run.only_traced) and i not in handed_out:
            run.source_of[logic] = (source_id(i), node.attributes.replay)
        elif node.stage.traits.marks_timer_results and outer is None and not handed_out:
            run.timer_results[logic] = source_id(i)
    for i, sources in marks.sinks.items():
        partitions = {
            handed_out[node][1] if node in handed_out else None
            for node in sources
            if not plan.nodes[node].stage.traits.marks_timer_results
        }
        only = partitions.pop() if len(partitions) == 1 else None
        run.progress.add_sink(logics[i], frozenset(map(source_id, sources)), only)


def _begins_anew(stage: GraphStage) -> bool:
    """Return whether the results of a stage depend on no earlier element, and its own elements have marks."""
    if isinstance(stage, BoundaryIn | BoundaryOut):
        return True
    return not remembers(stage) and (bool(stage.shape.inlets) or stage.traits.emits_marks)


def materialize(module: Module, system: ActorSystem) -> Any:
    """Start a run of a closed module on `system`; return its materialized value. Raises BuildError for open ports."""
    if module.shape.inlets or module.shape.outlets:
        ports = ", ".join((*module.shape.inlets, *module.shape.outlets))
        raise BuildError(f"a graph with open ports cannot run; connect: {ports}")
    if not isinstance(getattr(system, "running", None), bool):
        raise BuildError(
            f"a stream runs on an ActorSystem, got {type(system).__name__} {shortened(system, 60)}; ActorSystem('name') makes one, and without "
            "an argument the stream runs on the default system"
        )
    if not system.running:
        raise SystemStopped(f"cannot run a stream: actor system {system.name!r} is shut down")
    plan = plan_of(module)
    if plan.restarts is not None:
        return RestartedRun(plan, plan.restarts, system, _begin).start()
    return _begin(plan, system, lambda run, values, logics: plan.evaluate(values))


def _begin(plan: Plan, system: ActorSystem, built: Built) -> Any:
    """Start a run; return what `built` does."""
    run = Run(system)
    run.plan = plan
    run.endless = plan.endless
    run.continues = plan.continues
    islands: list[Island] = []
    try:
        values, logics, _ = _build(run, plan, None, islands)
        for logic in logics:
            logic.interpreter.logics.append(logic)
        run.islands.extend(islands)
        run.runs.alive[run] = None
        value = built(run, values, logics)
    except BaseException:
        run.runs.alive.pop(run, None)  # no island has started: the run is over, and nobody is to wait for it
        _give_up(islands)
        raise
    first, *others = islands
    first.tell(StartIsland(others) if others else ALONE)
    return value


def attach(parent: Logic, module: Module, *, inside: bool = True) -> tuple[list[Connection], list[Connection], Any]:
    """Run a module with open ports inside the island of the stage `parent`, which must be in one of its handlers.

    Returns (connections into the module, connections out of it, materialized value). The parent is the producer of the former
    and the consumer of the latter. They are not in its `outlets` and `inlets`, but count as its open ports until they close. With
    `inside` the parent hears of failures in the module; without it the user does, by the materialized value."""
    interpreter = parent.interpreter
    run = interpreter.island.run
    plan = plan_of(module)
    others: list[Island] = []
    try:
        values, logics, opened = _build(run, plan, parent, others)
    except BaseException:
        _give_up(others)
        raise
    outputs = opened[: len(plan.outlets)]
    inputs = opened[len(plan.outlets) :]
    for connection in outputs:
        connection.consumer = parent
    for connection in inputs:
        connection.producer = parent
    for logic in logics:
        logic.inside = inside
    parent._open_ports += len(opened)
    here = [logic for logic in logics if logic.interpreter is interpreter]
    if others:
        for logic in logics:
            if logic.interpreter is not interpreter:
                logic.interpreter.logics.append(logic)
        with run._lock:
            run.islands.extend(others)
    active = interpreter.active
    interpreter.add_inside(here)
    interpreter.active = active
    for island in others:
        island.tell(ALONE)
    return inputs, outputs, plan.evaluate(values)
