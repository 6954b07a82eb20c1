"""Requests between clients and brokers under faults: lost, unanswered, slow, refused. A Weather of the simulated cluster. Owner: the plan."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from streamactors.simulation.cluster.weather import Calm

if TYPE_CHECKING:
    from streamactors.simulation.faults.chances import Chances
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.world.face import World


class Requests(Calm):
    """Loses requests and answers at the rates of the faults; a broker in `slow` takes longer."""

    def __init__(self, faults: Faults, chances: Chances, world: World) -> None:
        super().__init__(random.Random(f"{chances.seed}/requests"))
        self._faults = faults
        self._chances = chances
        self._world = world
        self._slow_ms = faults.span_ms("slow_request_takes")
        self.slow: set[int] = set()
        """The brokers that are slow now."""

    def delay_ms(self, client: str, broker: int, api: str) -> float:
        """Return how long one way takes, in virtual milliseconds."""
        usual = super().delay_ms(client, broker, api)
        if broker not in self.slow:
            return usual
        low, high = self._slow_ms
        return low + (usual - self.fastest_ms) / (self.slowest_ms - self.fastest_ms) * (high - low)

    def lose_request(self, client: str, broker: int, api: str) -> bool:
        """Whether the request is lost before the broker has it."""
        rate, text = self._faults.request_lost, f"a request {api} of {client} to broker {broker} was lost"
        return self._chances.strikes_at("request_lost", client, rate, self._world, text) is not None

    def lose_answer(self, client: str, broker: int, api: str) -> bool:
        """Whether the answer is lost after the broker has done what was asked."""
        rate, text = self._faults.answer_lost, f"the answer of broker {broker} to {api} of {client} was lost"
        return self._chances.strikes_at("answer_lost", client, rate, self._world, text) is not None
