"""What becomes of each request on its way between a client and the cluster.

Owner: the cluster. Faults put a Weather of their own in place of `Calm`."""

from __future__ import annotations

import random
from typing import Final, Protocol

FASTEST_MS: Final = 0.2
SLOWEST_MS: Final = 2.0
"""The bounds of one way in calm weather."""


class Weather(Protocol):
    """Decides about each request. `client` is the client's id, `broker` the broker's number, `api` the name of the request."""

    def delay_ms(self, client: str, broker: int, api: str) -> float:
        """Return how long one way takes, in virtual milliseconds."""
        ...

    def lose_request(self, client: str, broker: int, api: str) -> bool:
        """Whether the request is lost before the broker has it."""
        ...

    def lose_answer(self, client: str, broker: int, api: str) -> bool:
        """Whether the answer is lost: the broker has done what was asked, and the client does not know."""
        ...


class Calm:
    """Nothing is lost; each way takes a random time between two bounds."""

    def __init__(self, dice: random.Random, fastest_ms: float = FASTEST_MS, slowest_ms: float = SLOWEST_MS) -> None:
        self._dice = dice
        self.fastest_ms, self.slowest_ms = fastest_ms, slowest_ms

    def delay_ms(self, client: str, broker: int, api: str) -> float:
        """Return a random time between the bounds."""
        return self._dice.uniform(self.fastest_ms, self.slowest_ms)

    def lose_request(self, client: str, broker: int, api: str) -> bool:
        """Return False."""
        return False

    def lose_answer(self, client: str, broker: int, api: str) -> bool:
        """Return False."""
        return False
