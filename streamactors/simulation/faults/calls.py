"""What becomes of a call of a store outside of the pipeline. Owner: the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from streamactors.simulation.faults.chances import Chances
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.world.face import World

USUAL_MS: Final = (0.1, 5.0)
"""How long a call takes that no fault makes slow."""
SECOND_MS: Final = (1.0, 500.0)
"""A reordered call arrives for the second time so long after the first."""


class Fate(NamedTuple):
    """What becomes of one call.

    `delay_ms`: how long it takes. It fails before its effect, or after it; `duplicated`: its effect happens twice, the second time after
    `again_after_ms` (0: at once)."""

    delay_ms: float = 0.0
    fails_before: bool = False
    fails_after: bool = False
    duplicated: bool = False
    again_after_ms: float = 0.0


class Calls:
    """The fates of the calls of a run."""

    def __init__(self, faults: Faults, chances: Chances) -> None:
        self._faults = faults
        self._chances = chances
        self._slow_ms = faults.span_ms("slow_call_takes")

    def fate(self, world: World, store: str, instance: str, call: str) -> Fate:
        """Decide about one call of an instance."""
        faults, chances = self._faults, self._chances
        target = f"{store}@{instance}" if instance else store
        usual = chances.next("usual call", target)
        low, high = USUAL_MS
        delay_ms = low + usual.roll * (high - low)
        if chances.healed:
            return Fate(delay_ms)
        slow = chances.strikes_at("slow_call", target, faults.slow_call, world, f"{call} of {store} was slow")
        if slow is not None:
            delay_ms = slow.dice().uniform(*self._slow_ms)
        fails = chances.strikes_at("failing_call", target, faults.failing_call, world, f"{call} of {store} failed")
        before = fails is not None and fails.dice().random() < 0.5
        twice = chances.strikes_at("duplicate", target, faults.duplicate, world, f"{call} of {store} arrived twice")
        again_after_ms = 0.0
        if twice is None:
            text = f"{call} of {store} arrived a second time, behind later calls"
            twice = chances.strikes_at("reordered", target, faults.reordered, world, text)
            if twice is not None:
                again_after_ms = twice.dice().uniform(*SECOND_MS)
        return Fate(delay_ms, before, fails is not None and not before, twice is not None, again_after_ms)
