"""Weather for tests: requests and answers are lost at a rate, or by name."""

from __future__ import annotations

import random
from collections.abc import Callable


class Storm:
    """Loses requests and answers by dice, until `over`."""

    def __init__(
        self, dice: random.Random, lost: float = 0.0, unanswered: float = 0.0, slowest_ms: float = 5.0
    ) -> None:
        self._dice = dice
        self.lost = lost
        self.unanswered = unanswered
        self._slowest_ms = slowest_ms
        self.only: Callable[[str, str], bool] = lambda client, api: True

    def delay_ms(self, client: str, broker: int, api: str) -> float:
        return self._dice.uniform(0.1, self._slowest_ms)

    def lose_request(self, client: str, broker: int, api: str) -> bool:
        return self.only(client, api) and self._dice.random() < self.lost

    def lose_answer(self, client: str, broker: int, api: str) -> bool:
        return self.only(client, api) and self._dice.random() < self.unanswered

    def over(self) -> None:
        self.lost = self.unanswered = 0.0
