"""StageTraits: what a stage declares about itself. Read when a graph is planned and a run is built, never per element.

Owner: the stage, which names only what differs from the defaults. `handling` is not here: nearly every stage declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from streamactors.engine.marks.marks import Handling, Key, Needs

EmittedBy: TypeAlias = Callable[[Any], Key | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTraits:
    """What a stage declares, beside its shape and how it handles marks: `traits = StageTraits(emits_marks=True)`."""

    emits_marks: bool = False
    """True for a source that can be replayed and so emits position marks."""
    sampled: bool = False
    """True for a source that may push sampled records: where traces are installed, marks follow them (`streamactors/tracing/`)."""
    reads_marks: bool = False
    """True for a stage that wants marks to travel in its run."""
    needs: Needs | None = None
    """Of a stage that reads marks: its requirements on the stages between it and the sources or sinks."""
    owns_positions: str = ""
    """The name, for errors, of the owner of positions that the stage acts for; empty: none. A source has at most one owner in a run."""
    mark_ways: frozenset[tuple[int, int]] | None = None
    """The pairs of inlet and outlet between which marks pass; None: all pairs. A wire tap's branch carries no marks."""
    marks_timer_results: bool = False
    """True for a stage that passes marks and adds its own marks (`TimerResults`) after results that stem from no element."""
    opaque_because: str = ""
    """Why marks do not pass, for errors; empty: the stage does not declare how it treats them."""
    no_marks: str = ""
    """Why the stage is refused in a run that reads marks; empty: it is allowed."""
    no_replay: str = ""
    """Why a source is refused in a run whose sink reads ranges again; empty: it is allowed."""

    inner_sources: Literal["emits", "runs"] | None = None
    """"emits": the elements are sources, and their marks carry this source's id. "runs": the stage runs the sources among its elements."""
    emitted_by: EmittedBy | None = None
    """Of a source that another source emitted as an element: for a run, the (source, partition) that its marks carry, None in other runs."""
    steps: Handling | None = None
    """How the operators that were fused into a source handle marks; None: there are none (engine/fusing/chains.py)."""

    restores_state: bool = False
    """True for a stage that remembers earlier elements in a state that the next run restores as of the positions where it begins."""
    restarts: tuple[Any, ...] = ()
    """Of a stage that commits: the back-off of the run's restarts (RestartSettings), None where it must not restart (engine/materializing/restarted_run.py)."""

    endless: bool = False
    """True for a source that never ends by itself; the end of the process does not wait for it."""
    ends_with_inputs: bool = False
    """True for a stage that completes only when all its inputs have completed, and that continues while one of its outlets is open.
    Read for the warning of a cycle that cannot complete (engine/planning/cycles.py)."""
    has_sides: bool = False
    """True for a fan-out whose outlet 0 completes only when the sinks of its other outlets have ended (engine/planning/sides.py)."""

    def marks_reach(self, inlet: int, outlet: int) -> bool:
        """Return whether marks of an inlet reach an outlet."""
        return self.mark_ways is None or (inlet, outlet) in self.mark_ways

    def emitter_in(self, run: Any) -> Key | None:
        """Return the (source, partition) that the marks of this source carry in a run because another source of the run emitted it."""
        return None if self.emitted_by is None else self.emitted_by(run)
