"""Crashes between two moments of an instance: after the first, and before the next last one.

Owner: the plan. Moments are requests that an instance sends, effects outside, and what its consumers are told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamactors.simulation.faults.when import Between

if TYPE_CHECKING:
    from streamactors.simulation.faults.chances import Chances
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.world.events import Event
    from streamactors.simulation.world.face import Cancel, World

OF_REQUESTS: Final = {
    "offset_commit": ("commit",),
    "produce": ("produce",),
    "add_partitions_to_txn": ("transaction begun",),
    "end_txn": ("transaction committing",),
    "txn_offset_commit": ("commit",),
}
"""The moments that an instance meets when it sends a request."""
LATEST_MS: Final = 200.0
"""A crash comes at once or so long after the first moment, if the last one has not come before."""


class MomentCrashes:
    """The crashes of a run between moments. `crash(instance, dice)` kills; it does not return in a task of the instance."""

    def __init__(
        self, faults: Faults, chances: Chances, world: World, crash: Callable[[str, random.Random], None]
    ) -> None:
        self._between = [each for each in faults.crashes if isinstance(each, Between)]
        self._chances = chances
        self._world = world
        self._crash = crash
        self._armed: dict[tuple[str, Between], Cancel] = {}

    def request(self, instance: str, api: str) -> None:
        """An instance sends a request."""
        for moment in OF_REQUESTS.get(api, ()):
            self.moment(moment, instance)

    def hear(self, event: Event) -> None:
        """An event of the trace: an instance starts, or a consumer of it gets or gives back partitions."""
        if event.kind == "start":
            self.moment("start", str(event.facts["of"]))
        elif event.kind in ("assigned", "revoked"):
            self.moment(event.kind, event.instance)

    def moment(self, name: str, instance: str) -> None:
        """An instance meets a moment: disarm the crashes that must come before it, arm those that may follow. May not return."""
        if not instance or self._chances.healed:
            return
        for each in self._between:
            if each.last == name:
                cancel = self._armed.pop((instance, each), None)
                if cancel is not None:
                    cancel()
        for each in self._between:
            if each.first == name and (instance, each) not in self._armed:
                self._perhaps(each, instance)

    def _perhaps(self, each: Between, instance: str) -> None:
        fault = f"crash between {each.first} and {each.last}"
        chance = self._chances.next(fault, instance)
        if chance.roll >= each.rate:
            return
        dice = chance.dice()
        text = f"instance {instance} crashed after {each.first}, before {each.last}"
        if dice.random() < 0.5 and each.first != "start":
            if self._chances.strike(chance, self._world, text):
                self._crash(instance, dice)
            return

        def due() -> None:
            self._armed.pop((instance, each), None)
            if self._chances.strike(chance, self._world, text):
                self._crash(instance, dice)

        delay_ms = dice.uniform(0, LATEST_MS)
        self._armed[instance, each] = self._world.later(delay_ms, due, fault, instance)
