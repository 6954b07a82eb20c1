"""What an operator over windows is told: one aggregation of the blueprint, with everything decided.

Owner: the compiler makes it, the operator reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from streamactors.windows.aggregator import Aggregator
from streamactors.windows.definitions import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

W = TypeVar("W", bound=TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows)


@dataclass(frozen=True, slots=True)
class Aggregation(Generic[W]):
    """`kafka`: Kafka's semantics to the letter. `finals`: the operator itself or something behind it on the same table
    gives final results."""

    node: str
    store: str
    windows: W
    aggregator: Aggregator
    retention_ms: int
    kafka: bool
    finals: bool

    @property
    def shape(self) -> str:
        """What kept state depends on."""
        return f"{self.aggregator.kind} over {self.windows.shape}"
