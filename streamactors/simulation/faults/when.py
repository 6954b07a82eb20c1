"""The words in which a test says when a fault strikes: a probability, `every`, `at`, `between`, and spans of time.

A number is a probability: for each virtual second for faults that come by themselves, for each opportunity (a call, a request, a record, a moment) for the
others. 0 is never."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from streamactors.durations import Duration, duration_ms
from streamactors.errors import BuildError

MOMENTS: Final = (
    "start", "assigned", "revoked", "effect", "produce", "commit", "transaction begun", "transaction committing",
)  # fmt: skip
"""The moments of an instance, in the order in which it meets them. `commit`: it asks for a commit of offsets."""


@dataclass(frozen=True)
class At:
    """Strikes at these times of a run, in ms since the faults began."""

    ms: tuple[float, ...]

    def gaps(self, dice: random.Random) -> Iterator[float]:
        """Yield the ms between a strike and the next."""
        before = 0.0
        for each in self.ms:
            yield each - before
            before = each


@dataclass(frozen=True)
class Every:
    """Strikes again and again, so many ms after the last one."""

    ms: float

    def gaps(self, dice: random.Random) -> Iterator[float]:
        """Yield the ms between a strike and the next."""
        while True:
            yield self.ms


@dataclass(frozen=True)
class Between:
    """Strikes an instance after one moment and before its next `last` one; `rate`: how often, of all such moments."""

    first: str
    last: str
    rate: float = 0.02


InTime: TypeAlias = float | At | Every
"""When a fault strikes that comes by itself."""


def at(*times: Duration) -> At:
    """Return: at these times after the pipeline was deployed."""
    if not times:
        raise BuildError('at() needs at least one time: at("30s"), at("30s", "2m")')
    return At(tuple(sorted(duration_ms(each, "at") for each in times)))


def every(period: Duration) -> Every:
    """Return: again and again, once a period."""
    ms = duration_ms(period, "every")
    if ms <= 0:
        raise BuildError(f"every({period!r}): the period must be longer than nothing")
    return Every(ms)


def between(first: str, last: str, rate: float = 0.02) -> Between:
    """Return: after the moment `first` of an instance and before its next `last`. `rate`: how often, of all such moments.

    Moments are those of MOMENTS; `between("effect", "commit")` is where at-least-once pipelines repeat. Raises BuildError."""
    for name in (first, last):
        if name not in MOMENTS:
            raise BuildError(f"between: {name!r} is no moment; choose from {', '.join(MOMENTS)}")
    return Between(first, last, probability("between: rate", rate))


def probability(what: str, value: object) -> float:
    """Return a probability. Raises BuildError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BuildError(f"{what} must be a probability from 0 (never) to 1 (always), got {value!r}")
    return float(value)


def in_time(what: str, value: object) -> InTime:
    """Return when a fault comes by itself. Raises BuildError."""
    if isinstance(value, At | Every):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BuildError(
            f'{what} must be a probability for each second from 0 to 1, at("30s", …) or every("1m"), got {value!r}'
        )
    return float(value)


def span(what: str, value: object) -> tuple[float, float]:
    """Return the bounds in ms of "1s..30s", or of one duration: up to it. Raises BuildError."""
    low, dots, high = value.partition("..") if isinstance(value, str) else ("", "", value)
    try:
        first = duration_ms(low, what) if dots else 0.0
        last = duration_ms(high if dots else value, what)  # type: ignore[arg-type]  # refused there
    except (TypeError, ValueError) as error:
        raise BuildError(f'{what} must be a span such as "1s..30s" or a duration, got {value!r}: {error}') from None
    if last < first or first < 0:
        raise BuildError(f"{what}: {value!r} ends before it begins")
    return first, last


def gaps(when: InTime, dice: random.Random) -> Iterator[float]:
    """Yield the ms from one opportunity to the next."""
    if isinstance(when, At | Every):
        yield from when.gaps(dice)
    elif when > 0:
        per_ms = -math.log1p(-min(when, 0.999)) / 1_000
        while True:
            yield dice.expovariate(per_ms)
