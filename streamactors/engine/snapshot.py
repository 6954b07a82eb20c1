"""Snapshots of running graphs: every stage with its state, every connection with its demand and its ready elements, and which stage
waits for which.

A snapshot is taken while the stages work: each number is right, but the numbers need not be of the same instant. Snapshots read only
state that the engine keeps anyway, so they cost nothing while they are not used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.boundary import BoundaryInLogic, BoundaryOutLogic
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.run import Run, all_runs, runs_of
from streamactors.engine.planning.picture import Box, Line, mermaid
from streamactors.engine.planning.svg import svg
from streamactors.mime_bundles import Bundle, plain

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.engine.blueprint.modules import Module
    from streamactors.engine.logic import Logic


FEWEST_TICKS: Final = 5
"""With fewer samples than this the shares of the stages say nothing."""
WORKS: Final = 0.3
"""A stage with this share of the working time is drawn as one that works."""
MOST_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class StageSnapshot:
    """`island` numbers the actors of the run; `state` is the stage's own `snapshot_state()`, often empty. A stage that has ended
    is shown as "ended" until the next stage has taken everything it pushed. `busy`: the stage's share of the time in which the stages of the
    run worked, by samples every 3 ms; 0 for all stages of a run that has hardly worked. `ports`: its inlets and outlets, closed ones too."""

    id: int
    name: str
    island: int
    state: str
    inlets_open: int
    outlets_open: int
    busy: float = 0.0
    ports: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class ConnectionSnapshot:
    """`asked`: elements that may still be pushed. `ready`: pushed and not taken. `elements`, `chunks`: passed so far.
    `marks`: marks that wait after ready elements, or until the stage lets them pass."""

    source: int  # stage ids
    target: int
    state: str  # open, completing, completed, failed, cancelled; "boundary" between two islands
    asked: int
    ready: int
    elements: int
    chunks: int
    marks: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Stage `waiter` waits on this connection for stage `on`: for demand, for elements, or for room (`what`)."""

    waiter: int
    on: int
    what: str


@dataclass(frozen=True, slots=True)
class MarkWait:
    """Stage `sink` has reported these positions of the sources whose marks reach it, the last `silent_ms` ago. With several sinks
    the run's position is the lowest."""

    sink: int
    done: dict[Any, Any]
    silent_ms: float


@dataclass(frozen=True, slots=True)
class GraphSnapshot:
    """One run."""

    stages: tuple[StageSnapshot, ...]
    connections: tuple[ConnectionSnapshot, ...]
    waits: tuple[Wait, ...]
    marks: tuple[MarkWait, ...]

    def stage(self, name: str) -> StageSnapshot:
        """Return the first stage of that name. Raises KeyError when there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(f"no stage {name!r}; there are: {', '.join(stage.name for stage in self.stages)}")

    @property
    def bottleneck(self) -> StageSnapshot | None:
        """The stage that takes most of the time; None if the run has hardly worked."""
        busiest = max(self.stages, key=lambda stage: stage.busy, default=None)
        return busiest if busiest is not None and busiest.busy else None

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart: islands as boxes, demand and fill on the arrows, waiting stages dashed."""
        boxes = [Box(stage.id, stage.name, stage.island, _note(stage)) for stage in self.stages]
        lines = [Line(c.source, c.target, _numbers(c)) for c in self.connections]
        lines += [Line(wait.waiter, wait.on, f"waits for {wait.what}", dashed=True) for wait in self.waits]
        return mermaid(boxes, lines)

    def to_svg(self) -> str | None:
        """Return the graph as an SVG image: the stages in colours that say what they do, with their share of the working time, and the elements and
        the ready elements on the arrows. None for a graph of more stages than can be drawn."""
        doing = _doing(self)
        boxes = [
            Box(stage.id, stage.name, stage.island, _lines(stage, doing[stage.id]), doing[stage.id])
            for stage in self.stages
        ]
        return svg(boxes, [Line(c.source, c.target, _passed(c)) for c in self.connections])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Show the graph in a notebook."""
        doing = _doing(self)
        shown = self.stages[:MOST_LINES]
        lines = [
            f"{plain(stage.name)}: {', '.join(filter(None, [plain(stage.state), doing[stage.id], _busy(stage)]))}".rstrip(
                ": "
            )
            for stage in shown
        ]
        if len(shown) < len(self.stages):
            lines.append(f"and {len(self.stages) - len(shown)} more stages")
        picture = self.to_svg()
        drawing = {} if picture is None else {"image/svg+xml": picture}
        return {"text/plain": "\n".join([f"a running graph of {len(self.stages)} stages", *lines]), **drawing}


def _doing(shot: GraphSnapshot) -> dict[int, str]:
    """Return what each stage does: it works, or it waits for demand or elements; empty if nothing of it is known."""
    found = dict.fromkeys((stage.id for stage in shot.stages), "")
    for wait in shot.waits:
        found[wait.waiter] = "waits for elements" if wait.what == "elements" else "waits for demand"
    for stage in shot.stages:
        if stage.busy >= WORKS:
            found[stage.id] = "works"
    return found


def _lines(stage: StageSnapshot, doing: str) -> str:
    return "\n".join(filter(None, [doing if doing != "works" else "", _busy(stage), stage.state]))


def _busy(stage: StageSnapshot) -> str:
    return f"busy {stage.busy:.0%}" if stage.busy >= 0.01 else ""


def _passed(connection: ConnectionSnapshot) -> str:
    ready = f", {connection.ready:,} ready" if connection.ready else ""
    return f"{connection.elements:,}{ready}"


def _note(stage: StageSnapshot) -> str:
    return ", ".join(filter(None, [stage.state, _busy(stage)]))


def _numbers(connection: ConnectionSnapshot) -> str:
    state = "" if connection.state == "open" else f"{connection.state}, "
    return (
        f"{state}asked {connection.asked}, ready {connection.ready}, "
        f"{connection.elements} elements in {connection.chunks} chunks"
        f"{f', {connection.marks} marks wait' if connection.marks else ''}"
    )


def snapshots(system: ActorSystem) -> list[GraphSnapshot]:
    """Return a snapshot of each run of a system that has not ended. Any thread."""
    return [snapshot_of(run) for run in list(runs_of(system))]


def unended_runs(module: Module) -> list[Run]:
    """Return the runs of a blueprint that have not ended, in all systems of this process; the one that began last comes last."""
    plan = module.plan
    return [] if plan is None else sorted((run for run in all_runs() if run.plan is plan), key=lambda run: run.number)


def snapshot_of(run: Run) -> GraphSnapshot:
    """Return the snapshot of a run. Any thread."""
    numbers: dict[Logic, int] = {}
    stages: list[StageSnapshot] = []

    def add(logic: Logic, island: int) -> None:
        if logic not in numbers:
            numbers[logic] = len(stages)
            open_in = sum(not c.in_closed for c in list(logic.inlets))
            open_out = sum(not c.out_closed for c in list(logic.outlets))
            busy = logic.busy_ticks / ticks if ticks >= FEWEST_TICKS else 0.0
            ports = (len(logic.inlets), len(logic.outlets))
            stages.append(StageSnapshot(len(stages), logic.name, island, _said(logic), open_in, open_out, busy, ports))

    interpreters = run.interpreters()
    ticks = sum(logic.busy_ticks for interpreter in interpreters for logic in list(interpreter.logics))
    for number, interpreter in enumerate(interpreters):
        for logic in list(interpreter.logics):
            if not logic.stopped:
                for inlet in list(logic.inlets):
                    if inlet.producer.stopped and not inlet.in_closed:
                        add(inlet.producer, number)
                add(logic, number)
    connections: list[ConnectionSnapshot] = []
    waits: list[Wait] = []
    for connection in dict.fromkeys(c for logic in numbers for c in [*logic.inlets, *logic.outlets]):
        source, target = numbers.get(connection.producer), numbers.get(connection.consumer)
        if source is not None and target is not None:
            shot = _look(connection, source, target)
            connections.append(shot)
            waits += _waits(connection, shot)
    for logic, number in numbers.items():
        if not isinstance(logic, BoundaryOutLogic):
            continue
        peer = getattr(logic, "peer", None)  # a half that ends just now has none
        if peer is not None and peer in numbers:
            connections.append(_boundary(logic, peer, number, numbers[peer]))
            waits += _waits_at_boundary(logic, peer, number, numbers[peer])
    marks = [
        MarkWait(numbers[sink], done, silent_ms)
        for sink, (done, silent_ms) in run.progress.waiting_for().items()
        if sink in numbers
    ]
    return GraphSnapshot(tuple(stages), tuple(connections), tuple(waits), tuple(marks))


def _said(logic: Logic) -> str:
    if logic.stopped:
        return "ended"
    try:
        return logic.snapshot_state()
    except Exception as error:  # noqa: BLE001  # the stage works while its state is read
        return f"unknown ({type(error).__name__})"


def _look(c: Connection, source: int, target: int) -> ConnectionSnapshot:
    marks = sum(type(item) is not list for item in c.items.copy())
    return ConnectionSnapshot(source, target, c.state(), c.asked, c.ready, c.elements, c.chunks, marks)


def _waits(c: Connection, shot: ConnectionSnapshot) -> list[Wait]:
    if c.finished or c.cause is not None:
        return []
    if shot.ready:
        return [Wait(shot.source, shot.target, "room")]
    if c.terminal is not None:
        return []
    if shot.asked:
        return [Wait(shot.target, shot.source, "elements")]
    return [Wait(shot.source, shot.target, "demand")]


def _boundary(logic: BoundaryOutLogic, peer: BoundaryInLogic, source: int, target: int) -> ConnectionSnapshot:
    into = logic.inlets[0]
    return ConnectionSnapshot(source, target, "boundary", _granted(peer), peer.held, into.elements, into.chunks)


def _waits_at_boundary(logic: BoundaryOutLogic, peer: BoundaryInLogic, source: int, target: int) -> list[Wait]:
    if peer.held:
        return [Wait(source, target, "room")] if not logic._credit else []
    return [Wait(target, source, "elements")] if _granted(peer) else [Wait(source, target, "demand")]


def _granted(peer: BoundaryInLogic) -> int:
    """Return the number of elements that may still cross a boundary, including those in the mailbox."""
    return peer.window.outstanding - peer.held
