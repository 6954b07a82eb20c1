"""The faults of one run, decided by one seed.

Owner: the run. Each opportunity has dice of its own (`chances.py`): leaving a strike out changes the decision about no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.simulation.faults.calls import Calls, Fate
from streamactors.simulation.faults.chances import Chances
from streamactors.simulation.faults.in_time import InTimeFaults
from streamactors.simulation.faults.moments import MomentCrashes
from streamactors.simulation.faults.records import Records
from streamactors.simulation.faults.requests import Requests

if TYPE_CHECKING:
    from streamactors.kafka.producer_record import ProducerRecord
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.faults.deployment import Deployment
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.faults.strike import Strike
    from streamactors.simulation.world.face import World
    from streamactors.simulation.world.simulated import SimulatedWorld


class FaultPlan:
    """What goes wrong in one run. `only`: the ids of the strikes that may strike; None: all that the dice choose."""

    def __init__(self, faults: Faults, seed: int | str, only: frozenset[str] | None = None) -> None:
        self._faults = faults
        self._chances = Chances(seed, only)
        self._calls = Calls(faults, self._chances)
        self._records = Records(faults, self._chances)
        self._in_time: InTimeFaults | None = None
        self._moments: MomentCrashes | None = None
        self._world: World | None = None

    @property
    def strikes(self) -> list[Strike]:
        """What has struck, in its order."""
        return self._chances.strikes

    def watch(self, world: World) -> None:
        """Let the plan decide about records and calls of this world, before a pipeline is deployed."""
        self._world = world

    def begin(self, world: SimulatedWorld, cluster: SimulatedCluster, deployment: Deployment) -> None:
        """Let faults act on brokers, requests and instances from now on."""
        self.watch(world)
        requests = cluster.weather = Requests(self._faults, self._chances, world)
        found = self._in_time = InTimeFaults(self._faults, self._chances, requests, world, cluster, deployment)
        moments = self._moments = MomentCrashes(self._faults, self._chances, world, found.crash)
        cluster.asked = moments.request
        world.trace.heard.append(moments.hear)
        found.begin()

    def heal(self) -> None:
        """End all faults. What the dice choose later does not strike."""
        self._chances.healed = True
        if self._in_time is not None:
            self._in_time.heal()

    def fate(self, store: str, instance: str, call: str) -> Fate:
        """Decide about a call of a store outside."""
        return self._calls.fate(self._known_world, store, instance, call)

    def moment(self, name: str, instance: str) -> None:
        """An instance meets a moment of `when.MOMENTS`. Does not return if the instance crashes there and the caller is a task of it."""
        if self._moments is not None:
            self._moments.moment(name, instance)

    def prepared(self, topic: str, records: list[ProducerRecord]) -> list[ProducerRecord]:
        """Return the records that are sent: those given, late ones with another timestamp, and what faults add."""
        return self._records.prepared(self._known_world, topic, records)

    @property
    def _known_world(self) -> World:
        assert self._world is not None, "watch or begin comes first"
        return self._world
