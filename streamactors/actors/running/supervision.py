"""Supervision: a parent's strategy for children that fail. Pure: no clock, thread or logger.

The vocabulary is Akka's: resume, restart, stop, escalate; restarts wait longer each time (exponential back-off with
jitter) and are counted within a window. A parent states its strategy as the class attribute `supervision`; an actor
whose parent states none gets Thespian's treatment: the message is tried once more and then returned to its sender as a
PoisonMessage.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamactors.durations import Duration, duration_ms


class Directive(enum.Enum):
    """What to do with the actor that failed."""

    RESUME = "resume"  # keep the instance, skip the message
    RESTART = "restart"  # a new instance at the same address, after the back-off; its messages wait
    STOP = "stop"  # end it; the parent gets ChildActorExited
    ESCALATE = "escalate"  # stop it, and its parent fails with the same error


@dataclass(frozen=True, slots=True)
class ActorTerminated:
    """Sent to an actor that watches another (`watch_actor`) when the watched one has ended, or at once if it had."""

    address: Any
    """The address of the actor that has ended."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The directive for one failure, and for a restart how long to wait."""

    directive: Directive
    delay_ms: float = 0.0


@dataclass(frozen=True)
class Supervision:
    """A parent's strategy for its children.

    Times are seconds, a timedelta, or a string such as "1s"."""

    decide: Callable[[BaseException], Directive]
    """Returns the directive for an error of a child."""
    min_backoff: Duration = "100ms"
    """The wait before the first restart. It doubles with every further restart."""
    max_backoff: Duration = "10s"
    """The longest wait before a restart."""
    jitter: float = 0.2
    """The largest random addition to a wait, as a share of it."""
    max_restarts: int | None = None
    """The number of restarts after which the next failure stops the child. None: no limit."""
    within: Duration = "1m"
    """A child that has worked this long since its last failure begins with a restart count of 0."""

    def __post_init__(self) -> None:
        if not callable(self.decide):
            raise TypeError(f"Supervision: decide must be a function of the error, not {self.decide!r}")
        if (
            not 0
            < duration_ms(self.min_backoff, "Supervision: min_backoff")
            <= duration_ms(self.max_backoff, "Supervision: max_backoff")
        ):
            raise ValueError(
                f"Supervision: 0 < min_backoff <= max_backoff does not hold: {self.min_backoff!r}, {self.max_backoff!r}"
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Supervision: jitter is a share between 0 and 1, not {self.jitter!r}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"Supervision: max_restarts cannot be negative: {self.max_restarts!r}")
        if duration_ms(self.within, "Supervision: within") <= 0:
            raise ValueError(f"Supervision: within must be positive, not {self.within!r}")

    @staticmethod
    def stop() -> Supervision:
        """Stop a child that fails."""
        return Supervision(lambda error: Directive.STOP)

    @staticmethod
    def resume() -> Supervision:
        """Keep a child that fails; it skips the message."""
        return Supervision(lambda error: Directive.RESUME)

    @staticmethod
    def escalate() -> Supervision:
        """Fail with the child that fails."""
        return Supervision(lambda error: Directive.ESCALATE)

    @staticmethod
    def restart(
        *,
        min_backoff: Duration = "100ms",
        max_backoff: Duration = "10s",
        jitter: float = 0.2,
        max_restarts: int | None = None,
        within: Duration = "1m",
    ) -> Supervision:
        """Restart a child that fails, with back-off; the times are seconds, timedeltas or strings."""
        return Supervision(lambda error: Directive.RESTART, min_backoff, max_backoff, jitter, max_restarts, within)


@dataclass(slots=True)
class FailureRecord:
    """One child's failures so far."""

    restarts: int = 0
    last_failure_ms: float = field(default=float("-inf"))

    def judge(
        self, strategy: Supervision, error: BaseException, now_ms: float, draw: Callable[[], float] = random.random
    ) -> Verdict:
        """Return what to do about a failure at `now_ms`, and remember it."""
        if now_ms - self.last_failure_ms > duration_ms(strategy.within, "within"):
            self.restarts = 0
        self.last_failure_ms = now_ms
        directive = strategy.decide(error)
        if not isinstance(directive, Directive):
            raise TypeError(f"Supervision: decide returned {directive!r}, which is not a Directive")
        if directive is not Directive.RESTART:
            return Verdict(directive)
        if strategy.max_restarts is not None and self.restarts >= strategy.max_restarts:
            return Verdict(Directive.STOP)
        low, high = duration_ms(strategy.min_backoff, "min_backoff"), duration_ms(strategy.max_backoff, "max_backoff")
        delay_ms = min(high, low * 2.0 ** min(self.restarts, 60)) * (1.0 + strategy.jitter * draw())
        self.restarts += 1
        return Verdict(Directive.RESTART, delay_ms)
