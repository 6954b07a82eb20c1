"""Futures of an admin client: waiting for one lets virtual time move.

Owner: the admin client."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from streamactors.simulation.client.base import limit_ms

if TYPE_CHECKING:
    from streamactors.simulation.world.face import World


class SimFuture(Future[Any]):
    """The outcome of one request."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def result(self, timeout: float | None = None) -> Any:
        """Return the outcome, or raise its error; TimeoutError if there is none in time."""
        if not self.done():
            self._world.wait(self.done, limit_ms(timeout))
        return super().result(0)
