"""One run of a test's body by one case. Owner: whoever tries seeds."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.face.case import Broken, Case, CheckBroken, Outcome
from streamactors.simulation.face.parts import Parts
from streamactors.simulation.face.simulation import Simulation
from streamactors.simulation.faults.faults import Faults
from streamactors.simulation.faults.plan import FaultPlan
from streamactors.simulation.world.errors import NotSimulated, WorldLimit, WorldStuck
from streamactors.simulation.world.events import Event
from streamactors.simulation.world.simulated import SimulatedWorld

Body = Callable[[Simulation], object]

BROKERS: Final = 3
FAULTS_MS: Final = 15_000.0
"""Faults act so long after the last record is sent."""
SETTINGS: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000"}


def run_once(body: Body, case: Case, *, faults_for_ms: float = FAULTS_MS) -> Outcome:
    """Run the body once, and everything that it declares; return what became of it.

    A check that does not hold, a run that is stuck or without end, and an error of the body are in the outcome. Raises NotSimulated, and BuildError for faults that are none."""
    if not isinstance(case.faults, Faults | None):
        raise BuildError(
            f"faults must be Faults, such as Faults.everything() or Faults.none(crash=0.1), got {case.faults!r}"
        )
    world = SimulatedWorld(case.seed, lines=case.lines)
    plan = FaultPlan(case.faults or Faults.everything(), case.seed, case.only)
    made: list[Simulation] = []

    def main() -> None:
        plan.watch(world)
        cluster = SimulatedCluster(world, brokers=BROKERS)
        with simulated_clients(world, cluster):
            sim = Simulation(Parts(case, world, cluster, plan))
            made.append(sim)
            body(sim)
            sim.finish(faults_for_ms)
            sim.deployment.end()

    broken: Broken | None = None
    with _quietly():
        try:
            world.run(main, code=(body,))
        except CheckBroken as error:
            broken = error.broken
        except NotSimulated:
            raise
        except (WorldStuck, WorldLimit) as error:
            broken = _broken("the run ends", str(error), world)
        except Exception as error:  # noqa: BLE001  # an error of the body is a finding of this seed
            broken = _broken("the test's body", f"{type(error).__name__}: {error}", world, error)
    checks = made[0].checks if made else None
    return Outcome(
        broken, tuple(plan.strikes), _placed(world, made), digest_of(world),
        frozenset(checks.reached if checks else ()), frozenset(checks.sought if checks else ()),
        {
            "steps": len(world.trace.entries), "events": len(world.trace.events),
            "records": made[0].declared if made else 0,
        },
    )  # fmt: skip


def _placed(world: SimulatedWorld, made: list[Simulation]) -> tuple[Event, ...]:
    """Return the events; effects with the records that they come of, as far as these were known at the end."""
    events = world.trace.events
    if not made:
        return tuple(events)
    place_of = made[0].place_of
    return tuple(
        event._replace(facts={**event.facts, "record": place_of(event.facts["key"])})
        if event.kind == "effect" and event.facts["record"] is None
        else event
        for event in events
    )


def _broken(check: str, text: str, world: SimulatedWorld, error: BaseException | None = None) -> Broken:
    where = _line_of(error)
    last = world.trace.entries[-1][0] if world.trace.entries else 0
    return Broken(check, f"{text} ({where})" if where else text, last, len(world.trace.events), None)


def _line_of(error: BaseException | None) -> str:
    """Return the innermost line of the user's code that an error passed."""
    from streamactors.simulation.world.lines import is_users

    found, trace = "", error.__traceback__ if error is not None else None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def digest_of(world: SimulatedWorld) -> str:
    """Return the SHA-256 of a world's trace."""
    digest = hashlib.sha256()
    for entry in world.trace.entries:
        digest.update(repr(entry).encode())
    return digest.hexdigest()


@contextmanager
def _quietly() -> Iterator[None]:
    """Thousands of runs fail on purpose: what they log is not for the reader of the test."""
    log = logging.getLogger("streamactors")
    before: Any = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
