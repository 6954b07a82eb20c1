"""Why a run makes no progress, read from its snapshot: which stage waits for which, and what the last of them waits for.

Cost: a snapshot and, for a stage that is inside user code, a look at the stacks of all threads. A run that is not diagnosed pays nothing."""

from __future__ import annotations

import enum
import sys
import traceback
from dataclasses import dataclass
from types import FrameType
from typing import Any

from streamactors.engine.island.interpreter import Interpreter
from streamactors.engine.island.run import Run
from streamactors.engine.snapshot import GraphSnapshot, snapshot_of

_ENGINE = ("streamactors.engine", "streamactors.stages", "streamactors.actors")
_HANDLERS = (Interpreter.visit.__code__, Interpreter._guarded.__code__, Interpreter.deliver.__code__)


class Cause(enum.Enum):
    """What a run waits for."""

    BLOCKED = "a user function that does not return"
    POOL = "a thread: every thread of the pool is inside a turn"
    CYCLE = "itself: the stages of a cycle wait for each other"
    SOURCE = "a source that has no elements"
    PAUSED = "control.resume: the user has paused every partition of the source"
    SINK = "a sink that does not take elements"
    STAGE = "a stage that holds elements"


@dataclass(frozen=True, slots=True)
class Stall:
    """A run that makes no progress. `stages`: the stage to look at, or those of the cycle. `stack`: the calls of the user function, innermost last."""

    cause: Cause
    stages: tuple[str, ...]
    stack: str
    snapshot: GraphSnapshot
    silent_ms: float = 0.0

    def __str__(self) -> str:
        names = (", " if self.cause is Cause.PAUSED else " -> ").join(self.stages)
        text = f"the stream waits for {self.cause.value}: {names}"
        if self.cause is Cause.CYCLE:
            text += "; a buffer in the cycle, or a branch that drops or does not wait, would let it move"
        return f"{text}\n{self.stack}" if self.stack else text

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart that shows which stage waits for which."""
        return self.snapshot.to_mermaid()


def diagnose(run: Run, silent_ms: float = 0.0) -> Stall | None:
    """Return what a run waits for; None if neither elements nor demand wait, so that it has ended or is about to. Any thread."""
    shot = snapshot_of(run)
    if not shot.waits and not shot.stages:
        return None
    blocked = _blocked(run)
    if blocked is not None:
        stage, stack = blocked
        return Stall(Cause.BLOCKED, (stage,), stack, shot, silent_ms)
    pool = run.system.pool
    if pool.cells_waiting and pool.threads >= pool.max_threads:
        return Stall(Cause.POOL, (f"{pool.threads} threads, {pool.cells_waiting} turns wait",), "", shot, silent_ms)
    cause, stages = end_of_waits(shot)
    if cause is Cause.SOURCE and (paused := _paused(run)):
        return Stall(Cause.PAUSED, paused, "", shot, silent_ms)
    return None if cause is None else Stall(cause, stages, "", shot, silent_ms)


def end_of_waits(shot: GraphSnapshot) -> tuple[Cause | None, tuple[str, ...]]:
    """Follow who waits for whom, and return where that ends: in a cycle, or at stages that wait for no other stage."""
    waits: dict[int, set[int]] = {}
    for wait in shot.waits:
        waits.setdefault(wait.waiter, set()).add(wait.on)
    if not waits:
        return None, ()
    names = {stage.id: stage.name for stage in shot.stages}
    ends = {on for each in waits.values() for on in each if on not in waits}
    sources = {stage.id for stage in shot.stages if not stage.ports[0]} - {c.target for c in shot.connections}
    sinks = {stage.id for stage in shot.stages if not stage.ports[1]} - {c.source for c in shot.connections}
    for kinds, cause in ((sinks, Cause.SINK), (None, Cause.STAGE), (sources, Cause.SOURCE)):
        found = ends & kinds if kinds is not None else ends - sources - sinks
        if found:
            return cause, tuple(names[i] for i in sorted(found))
    cycle = _cycle(waits)
    return (Cause.CYCLE, tuple(names[i] for i in cycle)) if cycle else (None, ())


def _paused(run: Run) -> tuple[str, ...]:
    logics = [logic for interpreter in run.interpreters() for logic in list(interpreter.logics)]
    return tuple(sorted({name for logic in logics for name in getattr(logic, "paused", ())}))


def _cycle(waits: dict[int, set[int]]) -> list[int]:
    """Return the stages of a cycle, in order; every stage in `waits` that a stage waits for waits itself."""
    here = next(iter(waits))
    way: list[int] = []
    while here not in way:
        way.append(here)
        following = waits.get(here)
        if not following:
            return []
        here = min(following)
    return way[way.index(here) :]


def _blocked(run: Run) -> tuple[str, str] | None:
    """Return the stage that is inside user code, and the Python stack there."""
    interpreters = {id(each): each for each in run.interpreters()}
    for frame in list(sys._current_frames().values()):
        found = _inside(frame, interpreters)
        if found is not None:
            return found
    return None


def _inside(frame: FrameType, interpreters: dict[int, Any]) -> tuple[str, str] | None:
    inner = frame
    outer: FrameType | None = frame
    while outer is not None:
        if outer.f_code in _HANDLERS:
            interpreter = interpreters.get(id(outer.f_locals.get("self")))
            if interpreter is None:
                return None
            active = interpreter.active
            if active is None:
                return None
            return active.name, "".join(traceback.format_stack(inner)[-_depth(inner, outer) :]).rstrip()
        outer = outer.f_back
    return None


def _is_engine(frame: FrameType) -> bool:
    """True when the innermost frame is the engine's own, so that no user code runs."""
    return str(frame.f_globals.get("__name__", "")).startswith(_ENGINE)


def _depth(inner: FrameType, outer: FrameType) -> int:
    """Return the number of frames from the first one of the user's to the innermost."""
    depth = 0
    frame: FrameType | None = inner
    while frame is not None and frame is not outer and not _is_engine(frame):
        depth += 1
        frame = frame.f_back
    return max(1, depth)
