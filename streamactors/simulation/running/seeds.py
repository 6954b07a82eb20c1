"""Many seeds of one body: the first that fails ends them, and what none of them has reached is an error, too.

Owner: the pytest plug-in, `simulate()` and the command. A failing seed runs twice: when its traces differ, that is the error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.simulation.face.case import Broken, Case, Outcome
from streamactors.simulation.face.run import FAULTS_MS, Body, run_once
from streamactors.simulation.running.workers import Short, in_processes, short_of
from streamactors.simulation.world.errors import SimulationError

SEEDS: Final = 100
Run = Callable[[Case], Outcome]


class NotRepeatable(SimulationError):
    """Two runs of one seed differ: something in the test or in the pipeline does not depend on the seed alone."""


class ProvedNothing(SimulationError, AssertionError):
    """No seed has reached what `sometimes` names."""


@dataclass(frozen=True)
class Plan:
    """Which seeds to try. `seed`: this one alone. `time_s`: begin no further seed after so many real seconds. `jobs`: processes."""

    seeds: int = SEEDS
    seed: int | None = None
    time_s: float | None = None
    jobs: int = 1
    faults: Any = None
    lines: float = 0.0
    faults_for_ms: float = FAULTS_MS
    kept: Case | None = None
    """This case alone, as a file has it (`story/simcase.py`)."""

    @property
    def numbers(self) -> Iterable[int]:
        """The seeds."""
        if self.kept is not None:
            return (self.kept.seed,)
        return range(self.seeds) if self.seed is None else (self.seed,)

    def case(self, seed: int) -> Case:
        """Return the case of a seed."""
        return self.kept or Case(seed, self.faults, lines=self.lines)


@dataclass(frozen=True)
class Tried:
    """What the seeds have shown. `failing` and `outcome`: the first case that failed."""

    seeds: int
    took_s: float
    failing: Case | None = None
    outcome: Outcome | None = None

    @property
    def per_minute(self) -> float:
        """Seeds per real minute."""
        return 60 * self.seeds / self.took_s if self.took_s else 0.0


def try_seeds(body: Body, plan: Plan) -> Tried:
    """Run the body by the seeds of a plan. Raises NotRepeatable, ProvedNothing and NotSimulated."""
    again = runner(body, plan)
    begin = time.monotonic()
    reached: set[str] = set()
    sought: set[str] = set()
    count = 0
    for short in _outcomes(again, plan, begin):
        count += 1
        reached |= short.reached
        sought |= short.sought
        if short.broken is not None:
            failing = plan.case(short.seed)
            outcome = _twice(again, failing, short)
            return Tried(count, time.monotonic() - begin, failing, outcome)
    missed = sorted(sought - reached)
    if missed and plan.seed is None and plan.kept is None:
        raise ProvedNothing(
            f"none of {count} seeds reached {', '.join(map(repr, missed))}; try more seeds, longer or other faults, "
            "or more records"
        )
    return Tried(count, time.monotonic() - begin)


def runner(body: Body, plan: Plan) -> Run:
    """Return what runs one case of the body."""
    return lambda case: run_once(body, case, faults_for_ms=plan.faults_for_ms)


def _outcomes(again: Run, plan: Plan, begin: float) -> Iterable[Short]:
    def is_over() -> bool:
        return plan.time_s is not None and time.monotonic() - begin > plan.time_s

    if plan.jobs > 1 and plan.seed is None and hasattr(os, "fork"):  # else one after the other
        yield from in_processes(lambda seed: again(plan.case(seed)), plan.numbers, plan.jobs, is_over)
        return
    for seed in plan.numbers:
        if is_over():
            return
        yield short_of(seed, again(plan.case(seed)))


def _twice(again: Run, case: Case, first: Short) -> Outcome:
    """Return the outcome of a failing case. Raises NotRepeatable if it has another one now."""
    one = again(case)
    if one.digest == first.digest:
        return one
    other = again(case)
    raise NotRepeatable(
        f"seed {case.seed} fails, and its runs differ: {first_difference(one, other)}. Something depends on more than the seed: the order of a "
        "set of strings, id() or hash() of an object, a file, or a global that outlives a run"
    )


def first_difference(one: Outcome, other: Outcome) -> str:
    """Return where two runs part."""
    for a, b in zip(one.events, other.events, strict=False):
        if a != b:
            return f"at {a.at_us / 1_000:g} ms one has {_told(a)}, the other {_told(b)}"
    return "they have the same events, in other steps"


def _told(event: Any) -> str:
    return " ".join([event.kind, *(f"{name}={value!r}" for name, value in event.facts.items())])


def describe(broken: Broken) -> str:
    """Return a broken check in one line."""
    where = f" in instance {broken.instance}" if broken.instance else ""
    return f"{broken.check}: {broken.text}\n  at {broken.at_us / 1e6:.3f} s of virtual time{where}, step {broken.step}"
