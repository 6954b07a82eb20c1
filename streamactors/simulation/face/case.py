"""One run of a test's body, and what became of it.

Owner: `run.py`. A case holds everything that decides a run: equal cases have equal traces, in any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamactors.simulation.world.errors import SimulationError
from streamactors.simulation.world.events import Event


@dataclass(frozen=True)
class Case:
    """What decides a run.

    `only`: the ids of the strikes that strike; None: all that dice choose. `records`: the indices of the records that are sent, None for all.
    `lines`: how often a task gives way between two lines of user code."""

    seed: int
    faults: Any = None
    only: frozenset[str] | None = None
    records: frozenset[int] | None = None
    lines: float = 0.0


class Broken(NamedTuple):
    """A check that did not hold: its name, what was found, when in virtual µs and in which step, and in which instance ("" or None: outside)."""

    check: str
    text: str
    at_us: int
    step: int
    instance: str | None


@dataclass(frozen=True)
class Outcome:
    """The result of a run. `digest`: SHA-256 of the trace. `sought`: the names given to `sometimes`; `reached`: those that the run reached."""

    broken: Broken | None
    strikes: Sequence[Any]
    events: Sequence[Event]
    digest: str
    reached: frozenset[str]
    sought: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)


class CheckBroken(SimulationError):
    """A check of the test does not hold. The run ends."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(f"{broken.check}: {broken.text}")
        self.broken = broken
