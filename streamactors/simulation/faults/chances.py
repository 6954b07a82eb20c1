"""Decisions about faults. Each opportunity has dice of its own, made of the run's seed, the fault, its target and its number.

So a strike that is left out changes the dice of no other, and a story can be made shorter one strike at a time. What it changes is how often a run
comes to an opportunity afterwards. Owner: the plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import xxhash

from streamactors.simulation.faults.strike import Strike
from streamactors.simulation.world.face import World


class Chance(NamedTuple):
    """One opportunity of a fault. `roll` is from 0 to below 1."""

    fault: str
    target: str
    ordinal: int
    dice: Callable[[], random.Random]
    roll: float

    @property
    def id(self) -> str:
        """The id of the strike that may come of it."""
        return "/".join(filter(None, (self.fault, self.target, str(self.ordinal))))


class Chances:
    """The opportunities of a run."""

    def __init__(self, seed: int | str, only: frozenset[str] | None) -> None:
        """`only`: the ids of the strikes that may strike; None: all."""
        self.seed = seed
        self.healed = False
        self.strikes: list[Strike] = []
        """Those that have struck, in their order."""
        self._only = only
        self._ordinals: Counter[tuple[str, str]] = Counter()

    def next(self, fault: str, target: str) -> Chance:
        """Return the next opportunity of a fault at a target."""
        self._ordinals[fault, target] += 1
        ordinal = self._ordinals[fault, target]
        name = f"{self.seed}/{fault}/{target}/{ordinal}"
        roll = (
            xxhash.xxh64_intdigest(name.encode()) / 2**64
        )  # a Random for each request would cost more than the request
        return Chance(fault, target, ordinal, lambda: random.Random(name), roll)

    def strikes_at(self, fault: str, target: str, rate: float, world: World, text: str) -> Chance | None:
        """Return the opportunity if the fault strikes, None if not. `text` tells what happens then."""
        if self.healed or rate <= 0:
            return None
        chance = self.next(fault, target)
        return chance if chance.roll < rate and self.strike(chance, world, text) else None

    def strike(self, chance: Chance, world: World, text: str, target: str = "") -> bool:
        """Let an opportunity be a strike, unless the run leaves it out. Returns whether it strikes. `target`: what it hits, if its dice chose that."""
        if self.healed or (self._only is not None and chance.id not in self._only):
            return False
        hit = target or chance.target
        self.strikes.append(Strike(chance.id, chance.fault, hit, world.now_ms(), text))
        world.event("strike", id=chance.id, fault=chance.fault, target=hit, text=text)
        return True
