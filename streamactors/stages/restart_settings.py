"""RestartSettings: when a failed or completed part is started again, how long that waits, and when it is given up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from streamactors.clock import Duration
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function, span_ms


class NoMoreRestarts(Exception):  # an answer, not an error
    """Raised by the function that makes a restarted part: it is not wanted any more, so the stream completes."""


@dataclass(frozen=True)
class RestartSettings:
    """The wait before restart n (from 0) is min(max_backoff, min_backoff * 2^n) * (1 + random * random_factor).

    `max_restarts`: more than that within `max_restarts_within` (by default `min_backoff`) end the stream as the part ended; None:
    never. A part that ran longer than that before it ended starts the count, and the waits, anew.
    `restart_on(error)`: False for errors that are not worth a restart. Spans: milliseconds, a timedelta, or a text such as "1s"."""

    min_backoff: Duration
    max_backoff: Duration
    random_factor: float = 0.2
    max_restarts: int | None = None
    max_restarts_within: Duration | None = None
    restart_on: Callable[[BaseException], bool] | None = None

    def __post_init__(self) -> None:
        least = span_ms("RestartSettings", "min_backoff", self.min_backoff)
        most = span_ms("RestartSettings", "max_backoff", self.max_backoff)
        if most < least:
            raise BuildError(
                f"RestartSettings: max_backoff {self.max_backoff!r} is shorter than min_backoff {self.min_backoff!r}"
            )
        factor = self.random_factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < float("inf"):
            raise BuildError(f"RestartSettings: random_factor must be a number of at least 0, got {factor!r}")
        if self.max_restarts is not None:
            at_least("RestartSettings", "max_restarts", self.max_restarts, 0)
        if self.max_restarts_within is not None:
            span_ms("RestartSettings", "max_restarts_within", self.max_restarts_within)
        if self.restart_on is not None:
            plain_function("RestartSettings: restart_on", self.restart_on)

    def delay_ms(self, restarts: int) -> float:
        """Return the wait before the next restart, `restarts` having been made already."""
        least = span_ms("", "", self.min_backoff)
        most = span_ms("", "", self.max_backoff)
        doubled = most if restarts >= 64 else min(most, least * 2**restarts)
        return doubled * (1 + random.random() * self.random_factor)

    @property
    def within_ms(self) -> float:
        """The window in which restarts are counted."""
        return span_ms("", "", self.max_restarts_within or self.min_backoff)
