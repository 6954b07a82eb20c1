"""The default actor system of each instance of a world. In a process of its own an instance would have one."""

from __future__ import annotations

from streamactors.actors.system import ActorSystem
from streamactors.simulation.world.here import here


class Defaults:
    """What `ActorSystem.default()` returns in a world."""

    def __init__(self) -> None:
        self._systems: dict[str, ActorSystem] = {}

    def get(self) -> ActorSystem:
        """Return the calling instance's default system, made when first needed."""
        scheduler = here()
        task = None if scheduler is None else scheduler.current
        instance = "" if task is None else task.instance
        system = self._systems.get(instance)
        if system is None or not system.running:
            system = self._systems[instance] = ActorSystem("default")
        return system

    def forget(self, instance: str) -> None:
        """The instance has crashed: the next start makes a new system."""
        self._systems.pop(instance, None)

    def end(self) -> None:
        """The world ends its tasks; nothing is left to do."""
