"""Seeded simulation of a user's own pipelines.

`world/` runs every task on one scheduler under virtual time. `cluster/` is a simulated Apache Kafka cluster over the broker's own state machines, and
`client/` has clients of it with the methods of confluent-kafka's. `face/` is what a test says to one run, and `running/` tries many seeds. The product
imports nothing of this package. Names are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.simulation.face.outside import Outside as Outside
    from streamactors.simulation.face.outside import OutsideFailed as OutsideFailed
    from streamactors.simulation.face.simulation import Simulation as Simulation
    from streamactors.simulation.faults.faults import Faults as Faults
    from streamactors.simulation.faults.when import at as at
    from streamactors.simulation.faults.when import between as between
    from streamactors.simulation.faults.when import every as every
    from streamactors.simulation.running.simulate import SimulationFailed as SimulationFailed
    from streamactors.simulation.running.simulate import simulate as simulate

__getattr__, __dir__ = lazy_names(__name__)
