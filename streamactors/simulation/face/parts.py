"""What the parts of one simulation share. Owner: the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.face.case import Case
    from streamactors.simulation.world.simulated import SimulatedWorld

SERVERS: Final = "simulated:9092"
Place = tuple[str, int, int]


@dataclass
class Parts:
    """The world, the cluster and the plan of the faults of one run. `places`: where the records are that have an id."""

    case: Case
    world: SimulatedWorld
    cluster: SimulatedCluster
    plan: Any
    places: dict[Any, Place] = field(default_factory=dict)
    broke: Callable[[str, str], BaseException] = lambda check, text: AssertionError(f"{check}: {text}")
    """Ends the run with a broken check; returns the error, to be raised."""

    def place_of(self, key: Any, record: Any) -> Place | None:
        """Return where the record is that an effect comes of: the given one, or the one whose id is the effect's key."""
        if record is not None and hasattr(record, "offset"):
            return record.topic, record.partition, record.offset
        try:
            return self.places.get(key)
        except TypeError:
            return None  # a key that cannot be hashed is no id
