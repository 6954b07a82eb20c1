"""The condition of a stream's future, over a lock of the world. The product's own is a subclass of a lock of C code, which knows no tasks."""

from __future__ import annotations

from typing import Any

from streamactors.actors import futures
from streamactors.simulation.world.here import here
from streamactors.simulation.world.locks import RLock

_real: Any = futures._Condition


class WorldCondition(RLock):
    """`wait` and `notify_all` are the product's own functions."""

    __slots__ = ("_sleeping",)

    def __new__(cls) -> Any:
        return super().__new__(cls) if here() is not None else _real()

    def __init__(self) -> None:
        super().__init__()
        self._sleeping: list[Any] | None = None

    wait = _real.wait
    notify_all = _real.notify_all


def replacements() -> list[tuple[object, object]]:
    """Return (original, replacement)."""
    return [(_real, WorldCondition)]
