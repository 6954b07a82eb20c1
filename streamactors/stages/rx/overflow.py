"""What happens when results wait for demand beyond a bound."""

from __future__ import annotations

from typing import Final

from streamactors.errors import BuildError

OVERFLOW: Final = ("fail", "drop_head", "drop_tail", "drop_new")
MAX_BUFFER: Final = 100_000


class Flooded(BaseException):
    """Raised into an observable that emits more than may wait without ever returning: nothing else ends its loop.

    No Exception, or operators such as retry would take it for an error of the source."""


def checked_overflow(operator: str, overflow: str) -> str:
    """Return `overflow` if it is one of the policies."""
    if overflow not in OVERFLOW:
        raise BuildError(f"{operator}: overflow must be one of {', '.join(OVERFLOW)}, got {overflow!r}")
    return overflow
