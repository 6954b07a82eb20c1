"""A run: one materialization of a blueprint; and the materializer that makes it.

Owner: the actor system, which keeps every run until its islands have ended and fails those still running when it shuts down."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from streamactors.actors.local_system import SystemStopped
from streamactors.engine.blueprint import Module
from streamactors.engine.boundary import connect
from streamactors.engine.connection import Connection
from streamactors.engine.interpreter import Interpreter
from streamactors.engine.island import ALONE, Island, Start
from streamactors.engine.logic import Logic, bind
from streamactors.engine.marks import PositionMark
from streamactors.engine.pace import SliceWatch, watch_of
from streamactors.engine.plan import Plan, plan_of
from streamactors.engine.progress import Progress
from streamactors.engine.source_marks import SourceMarks
from streamactors.errors import AbruptTermination, BuildError

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.engine")

_running: weakref.WeakKeyDictionary[ActorSystem, _Runs] = weakref.WeakKeyDictionary()
_running_lock = threading.Lock()
_shared_lock = threading.RLock()

T = TypeVar("T")


class _Runs:
    """What the runs of one system share."""

    __slots__ = ("alive", "watch")

    def __init__(self, watch: SliceWatch) -> None:
        self.alive: set[Run] = set()
        self.watch = watch


def _runs_of(system: ActorSystem) -> _Runs:
    runs = _running.get(system)
    if runs is None:
        with _running_lock:
            runs = _running.get(system)
            if runs is None:
                runs = _running[system] = _Runs(watch_of(system.pool))
                alive = runs.alive
                system.on_shutdown(lambda: _abort_all(alive))
    return runs


def runs_of(system: ActorSystem) -> set[Run]:
    """Return the runs of a system that have not ended; the first call hooks into its shutdown."""
    return _runs_of(system).alive


def all_runs() -> list[Run]:
    """Return the runs of all systems of this process that have not ended."""
    with _running_lock:
        return [run for runs in list(_running.values()) for run in list(runs.alive)]


def _abort_all(runs: set[Run]) -> None:
    for run in list(runs):
        run.abort(AbruptTermination("the actor system was shut down while the stream was running"))


class Run:
    """The islands of one materialization and what they share."""

    __slots__ = (
        "__weakref__",
        "_ended",
        "_inside",
        "_left",
        "_lock",
        "_progress",
        "_runs",
        "_shared",
        "_source_of",
        "islands",
        "marks_active",
        "source_base",
        "system",
    )

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.islands: list[Island] = []
        self.marks_active = False
        self.source_base = 0  # added to a plan's node numbers, so that attached graphs have sources of their own
        self._runs = _runs_of(system)
        self._progress: Progress | None = None
        self._shared: dict[type, Any] = {}
        self._source_of: dict[Logic, tuple[int, Any]] = {}
        self._inside: dict[Logic, list[Logic]] | None = None
        self._lock = threading.Lock()
        self._left: list[tuple[Island, BaseException]] = []  # islands that a shutdown had no time for
        self._ended: list[Callable[[], None]] | None = None

    @property
    def progress(self) -> Progress:
        """What is done at which sink; made when first asked for, since most runs need none."""
        if self._progress is None:
            with self._lock:
                if self._progress is None:
                    self._progress = Progress()
        return self._progress

    def shared(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the one object of a kind that the stages of this run share, made at the first call.

        It stands here and in no table of runs: it mostly knows its run, and a weak key that its value holds is there for ever."""
        with _shared_lock:
            found = self._shared.get(kind)
            if found is None:
                found = self._shared[kind] = make()
            return cast("T", found)

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def source_marks(self, logic: Logic, feed: Any = None) -> SourceMarks | None:
        """Return the marks a source should emit, None when nobody reads any."""
        known = self._source_of.get(logic)
        if known is None:
            return None
        source, replay = known
        forced = replay.marks_at if replay is not None else ()
        marks = SourceMarks((source, 0), forced)
        if replay is not None and replay.on_done is not None:
            on_done = replay.on_done

            def tell(moved: PositionMark) -> None:
                for _, position in moved.values():
                    on_done(position)

            self.progress.listen(source, tell)
        return marks

    def inside(self, parent: Logic, logics: list[Logic]) -> None:
        """The stage `parent` has begun an inner graph of these stages; the one it had before is forgotten: its sinks hold
        nobody back, for the new source gives again what they have not done."""
        if self._inside is None:
            self._inside = {}
        for logic in self._inside.get(parent, ()):
            self._source_of.pop(logic, None)
            self.progress.forget(logic)
        self._inside[parent] = logics

    def source_id(self, logic: Logic) -> int | None:
        """Return the number by which marks name a source, None when nobody reads marks in this run."""
        known = self._source_of.get(logic)
        return None if known is None else known[0]

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def island_ended(self, island: Island) -> None:
        """All stages of an island have stopped."""
        with self._lock:
            self.islands.remove(island)
            over = not self.islands
        if over:
            self._runs.alive.discard(self)
            for callback in self._ended or ():
                callback()

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call `callback` when every stage has stopped; from the thread that ended the last one."""
        if self._ended is None:
            self._ended = []
        self._ended.append(callback)

    def abort(self, error: BaseException) -> None:
        """Fail every stage with `error`."""
        with self._lock:
            islands = list(self.islands)
        for island in islands:
            island.abort(error)

    def end_outside(self, island: Island, error: BaseException) -> None:
        """End an island that gets no turn any more, on a thread that those of the run share: whoever shuts down is not kept waiting."""
        with self._lock:
            self._left.append((island, error))
            first = len(self._left) == 1
        if first:
            threading.Thread(target=self._end_left, name="the end of a stream", daemon=True).start()

    def _end_left(self) -> None:
        while True:
            island, error = self._left[0]
            try:
                island.end_outside(error)
            except Exception:  # noqa: BLE001  # the others are still to be ended
                _log.exception("the end of a stream that the shutdown had no time for")
            with self._lock:
                del self._left[0]
                if not self._left:
                    return


_UNHEARD = (
    "a source that reads marks stands inside '{}', where nobody can follow what becomes of its elements; "
    "let it begin the graph, put it into a RestartSource, or run it apart"
)


def _build(run: Run, plan: Plan, parent: Logic | None) -> tuple[list[Any], list[Logic], list[Island], list[Connection]]:
    """Make logics and connections of a plan. A graph with open ports runs inside the stage `parent`, on its island."""
    home = parent.interpreter.island if parent is not None else None
    outer = run._source_of.get(parent) if parent is not None else None
    marks = plan.marks
    handed_out = (
        parent is not None
        and run.marks_active
        and any(node.stage.emits_marks and node.stage.known_as(run) is not None for node in plan.nodes)
    )
    if marks.active:
        if parent is not None and outer is None and not handed_out:
            raise BuildError(_UNHEARD.format(parent.name))
        run.marks_active = True
    marked = marks.active or outer is not None or handed_out
    islands = [
        home if home is not None and i == 0 else Island(run, run._runs.watch, name)
        for i, name in enumerate(plan.islands)
    ]
    interpreters = [island.interpreter for island in islands]
    parts = plan.parts
    base = run.source_base
    run.source_base += len(parts)
    connections = [Connection(interpreters[island]) for island in plan.connections]
    logics: list[Logic] = []
    values: list[Any] = []
    for part in parts:
        logic, value = part.create(part.attributes)
        logic.attributes = part.attributes
        logic.name = part.name
        logics.append(logic)
        values.append(value)
    if marked:
        _prepare_marks(run, plan, base, outer, logics, connections)
        if parent is not None and outer is not None:
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
    return values, logics, islands, connections[len(plan.edges) :]


def _prepare_marks(
    run: Run,
    plan: Plan,
    base: int,
    outer: tuple[int, Any] | None,
    logics: list[Logic],
    connections: list[Connection],
) -> None:
    """Tell connections, sources and sinks of a plan what marks go where."""
    marks = plan.marks

    handed_out = {
        i: known
        for i, node in enumerate(plan.nodes)
        if node.stage.emits_marks and (known := node.stage.known_as(run)) is not None
    }

    def source_id(node: int) -> Any:
        """The name that marks bear: for the source inside a stage that stands for it, the stage's."""
        if node in handed_out:
            return handed_out[node][0]
        return outer[0] if outer is not None else base + node

    for number, edge in enumerate(plan.edges):
        carried = marks.carries.get(edge)
        if carried:
            connections[number].carries = frozenset(map(source_id, carried))
    for i, node in enumerate(plan.nodes):
        if node.stage.emits_marks and i not in handed_out:
            run._source_of[logics[i]] = (source_id(i), node.attributes.replay)
    for i, sources in marks.sinks.items():
        partitions = {handed_out[node][1] if node in handed_out else None for node in sources}
        only = partitions.pop() if len(partitions) == 1 else None
        run.progress.add_sink(logics[i], frozenset(map(source_id, sources)), only)


def materialize(module: Module, system: ActorSystem) -> Any:
    """Start a run of a closed module on `system`; return its materialized value. Raises BuildError for open ports."""
    if module.shape.inlets or module.shape.outlets:
        ports = ", ".join((*module.shape.inlets, *module.shape.outlets))
        raise BuildError(f"a graph with open ports cannot run; connect: {ports}")
    if not system.running:
        raise SystemStopped(f"cannot run a stream: actor system {system.name!r} is shut down")
    plan = plan_of(module)
    run = Run(system)
    values, logics, islands, _ = _build(run, plan, None)
    for part, logic in zip(plan.parts, logics, strict=True):
        islands[part.island].interpreter.logics.append(logic)
    run.islands = islands
    run._runs.alive.add(run)
    value = plan.evaluate(values)
    first, *others = islands
    first.tell(Start(others) if others else ALONE)
    return value


def attach(parent: Logic, module: Module) -> tuple[list[Connection], list[Connection], Any]:
    """Run a module with open ports inside the island of the stage `parent`, which must be in one of its handlers.

    Returns (connections into the module, connections out of it, materialized value). The parent is the producer of the former
    and the consumer of the latter; they are not in its `outlets` and `inlets`, and count as open ports of it until they close."""
    interpreter: Interpreter = parent.interpreter
    run = interpreter.island.run
    plan = plan_of(module)
    values, logics, islands, opened = _build(run, plan, parent)
    outputs = opened[: len(plan.outlets)]
    inputs = opened[len(plan.outlets) :]
    for connection in outputs:
        connection.consumer = parent
    for connection in inputs:
        connection.producer = parent
    parent._open_ports += len(opened)
    here = [logic for logic in logics if logic.interpreter is interpreter]
    others = [island for island in islands if island is not interpreter.island]
    if others:
        for node, logic in zip(plan.nodes, logics, strict=True):
            if logic.interpreter is not interpreter:
                islands[node.island].interpreter.logics.append(logic)
        with run._lock:
            run.islands.extend(others)
    active = interpreter.active
    interpreter.add_inside(here)
    interpreter.active = active
    for island in others:
        island.tell(ALONE)
    return inputs, outputs, plan.evaluate(values)
