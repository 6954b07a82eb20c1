"""Faults of instances and of calls of stores outside. Owner: the run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_DOWN_MS: Final = (500.0, 5_000.0)
_EVERY_MS: Final = (1_000.0, 30_000.0)


class Fate(NamedTuple):
    """What becomes of one call of a store outside."""

    delay_ms: float = 0.0
    fails_before: bool = False
    fails_after: bool = False
    duplicated: bool = False
    reordered: bool = False


class Strike(NamedTuple):
    """A fault that struck."""

    id: str
    fault: str
    target: str
    at_ms: float
    text: str


@dataclass(frozen=True)
class Faults:
    """How often things go wrong: a crash after an effect, a crash at any time, a failing call, a twofold one. `slow_ms`: the slowest call."""

    crash: float = 0.5
    crash_after_effect: float = 0.02
    failing_call: float = 0.02
    duplicate: float = 0.0
    slow_ms: float = 50.0

    @classmethod
    def everything(cls) -> Faults:
        """Return all faults at their usual rates."""
        return cls()

    @classmethod
    def none(cls) -> Faults:
        """Return no fault."""
        return cls(0, 0, 0, 0, 1.0)


class FaultPlan:
    """The faults of one run. Each opportunity is decided by itself, so leaving a strike out changes no other."""

    def __init__(self, faults: Faults, seed: int, only: frozenset[str] | None = None) -> None:
        self._faults = faults
        self._seed = seed
        self._only = only
        self._ordinals: dict[tuple[str, str], int] = {}
        self._healed = False
        self._world: Any = None
        self._deployment: Any = None
        self.strikes: list[Strike] = []

    def begin(self, world: Any, cluster: Any, deployment: Any) -> None:
        """Let faults act."""
        self._world, self._deployment = world, deployment
        world.later(0, self._crashes, "faults")

    def heal(self) -> None:
        """End all faults."""
        self._healed = True

    def prepared(self, topic: str, records: list[Any]) -> list[Any]:
        """Return the records."""
        return records

    def fate(self, store: str, instance: str, call: str) -> Fate:
        """Decide about a call."""
        number, dice = self._next("call", f"{store}@{instance}")
        faults = self._faults
        if self._healed:
            return Fate(dice.uniform(0.1, 1.0))
        delay_ms, roll = dice.uniform(0.1, faults.slow_ms), dice.random()
        fails = roll < faults.failing_call and self._strikes("call", store, number, f"a call of {store} failed")
        twice = dice.random() < faults.duplicate and self._strikes(
            "duplicate", store, number, f"a call of {store} came twice"
        )
        before = dice.random() < 0.5
        return Fate(delay_ms, fails and before, fails and not before, twice)

    def moment(self, name: str, instance: str) -> None:
        """Perhaps crash the calling instance."""
        if self._healed or name != "effect" or not instance:
            return
        number, dice = self._next("crash after effect", instance)
        if dice.random() < self._faults.crash_after_effect:
            text = f"instance {instance} crashed after an effect, before its commit"
            if self._strikes("crash after effect", instance, number, text):
                self._crash(instance, dice)

    def _crashes(self) -> None:
        number = 0
        while not self._healed:
            dice = random.Random(f"{self._seed}/crash/{number}")
            self._world.sleep(dice.uniform(*_EVERY_MS))
            names = self._deployment.instances()
            if self._healed or not names:
                break
            target = dice.choice(names)
            hits = dice.random() < self._faults.crash and self._deployment.is_running(target)
            if hits and self._strikes("crash", target, number, f"instance {target} crashed"):
                self._crash(target, dice)
            number += 1

    def _crash(self, instance: str, dice: random.Random) -> None:
        self._world.later(
            dice.uniform(*_DOWN_MS), lambda: self._deployment.restart(instance), f"{instance} starts again"
        )
        self._deployment.crash(instance)

    def _next(self, fault: str, target: str) -> tuple[int, random.Random]:
        number = self._ordinals[fault, target] = self._ordinals.get((fault, target), 0) + 1
        return number, random.Random(f"{self._seed}/{fault}/{target}/{number}")

    def _strikes(self, fault: str, target: str, number: int, text: str) -> bool:
        strike = Strike(f"{fault}/{target}/{number}", fault, target, self._world.now_ms(), text)
        if self._only is not None and strike.id not in self._only:
            return False
        self.strikes.append(strike)
        self._world.event("strike", id=strike.id, fault=fault, target=target, text=text)
        return True
