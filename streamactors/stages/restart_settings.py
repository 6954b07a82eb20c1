"""RestartSettings: when a failed or completed part is started again, after which back-off, and how often."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from streamactors.durations import Duration
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function, span_ms


class NoMoreRestarts(Exception):  # not an error
    """Raised by the function that makes a restarted part, to complete the stream instead."""


@dataclass(frozen=True)
class RestartSettings:
    """The back-off before restart n (from 0) is min(max_backoff, min_backoff * 2^n) * (1 + random * random_factor).

    Durations are seconds, a timedelta, or a string such as "1s"."""

    min_backoff: Duration
    """The back-off before the first restart."""
    max_backoff: Duration
    """The longest back-off."""
    random_factor: float = 0.2
    """The largest random addition, as a share of the back-off."""
    max_restarts: int | None = None
    """The number of restarts in a row; after that the stream ends as the part ends. None: no limit."""
    max_restarts_within: Duration | None = None
    """A part that ran longer than this before it ended resets the count and the back-off. None: `min_backoff`. A part that has emitted nothing, or
    a sink that took its first elements only, must also have run longer than `max_backoff`: an attempt to connect takes time. A part that found no broker
    never resets them."""
    restart_on: Callable[[BaseException], bool] | None = None
    """`restart_on(error)` returns False for errors that must fail the stream. None: every error restarts."""

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
        """Return the back-off before the next restart, after `restarts` earlier ones."""
        least = span_ms("RestartSettings", "min_backoff", self.min_backoff)
        most = span_ms("RestartSettings", "max_backoff", self.max_backoff)
        doubled = most if restarts >= 64 else min(most, least * 2**restarts)
        return doubled * (1 + random.random() * self.random_factor)

    @property
    def longest_ms(self) -> float:
        """The longest back-off, without the random addition."""
        return span_ms("RestartSettings", "max_backoff", self.max_backoff)

    @property
    def within_ms(self) -> float:
        """How long a part must have run to reset the count."""
        if self.max_restarts_within is None:
            return span_ms("RestartSettings", "min_backoff", self.min_backoff)
        return span_ms("RestartSettings", "max_restarts_within", self.max_restarts_within)
