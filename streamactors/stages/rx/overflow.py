"""The policies for results that wait for demand beyond a bound."""

from __future__ import annotations

from typing import Final

from streamactors.stages.rate.strategies import checked_strategy

MAX_BUFFER: Final = 100_000


class Flooded(BaseException):
    """Raised into an observable that emits beyond the bound without returning: only an error ends its loop.

    It is not an Exception; otherwise operators such as retry would handle it as an error of the source."""


def checked_overflow(operator: str, overflow: str) -> str:
    """Return `overflow` if it is one of the policies."""
    return checked_strategy(operator, "overflow", overflow, "backpressure", "drop_buffer")
