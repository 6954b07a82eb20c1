"""Window definitions: which windows a timestamp belongs to, and when they close.

Owner: the user's blueprint; immutable. Boundaries, order and limits are those of Kafka Streams (TimeWindows,
SessionWindows, SlidingWindows, UnlimitedWindows). All times are milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from streamactors.errors import BuildError
from streamactors.windows.definitions.duration import MAX_MS, Duration, to_ms

FOREVER: Final = MAX_MS
"""End of an unlimited window."""

_NO_GRACE: Final = (
    'has no grace period: say how late a row may come with .with_grace("1m"), or .with_no_grace(). '
    "There is no default, because a long silent one is why final results seem never to come"
)


G = TypeVar("G", bound="_Graced")


@dataclass(frozen=True, slots=True)
class _Graced:
    """Windows that close. A session also waits for its gap before it closes."""

    def with_grace(self: G, grace: Duration) -> G:
        """Accept rows for `grace` (ms, a timedelta or a text) of stream time after a window's end.

        A window whose end belongs to it (sessions, sliding windows) closes when stream time is past its end + grace, another one when
        stream time is at it."""
        return self._with(to_ms(grace, f"{type(self).__name__}: grace"))

    def with_no_grace(self: G) -> G:
        """Close a window as soon as stream time reaches its end; where the end is inclusive, once it has passed it."""
        return self._with(0)

    def _with(self: G, grace_ms: int) -> G:
        changes: dict[str, Any] = {"grace_ms": grace_ms}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class TimeWindows(_Graced):
    """Windows [n * advance, n * advance + size), aligned to the epoch; tumbling unless `advance_by` is given.

    A window closes once stream time reaches its end + grace."""

    size_ms: int
    advance_ms: int
    grace_ms: int | None = None

    inclusive_end: ClassVar[bool] = False

    @classmethod
    def of_size(cls, size: Duration) -> TimeWindows:
        """Tumbling windows of `size` (at least 1 ms)."""
        size_ms = to_ms(size, "TimeWindows: size", minimum=1)
        return cls(size_ms, size_ms)

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Hopping windows: a new one starts every `advance` (ms, a timedelta or a text), which must lie in (0, size]."""
        advance_ms = to_ms(advance, "TimeWindows: advance", minimum=1)
        if advance_ms > self.size_ms:
            raise BuildError(
                f"TimeWindows: advance is {advance_ms} ms, more than the size {self.size_ms} ms: "
                "rows in the gaps would belong to no window; make it at most the size"
            )
        return replace(self, advance_ms=advance_ms)

    def starts(self, timestamp_ms: int) -> range:
        """Starts of the windows that contain `timestamp_ms`, ascending, never negative."""
        advance = self.advance_ms
        first = max(0, timestamp_ms - self.size_ms + advance) // advance * advance
        return range(first, timestamp_ms + 1, advance)

    @property
    def wait_ms(self) -> int:
        """Distance from a window's end to the stream time that closes the window."""
        return grace_of(self)

    @property
    def shortest_retention_ms(self) -> int:
        return self.size_ms + grace_of(self)

    @property
    def shape(self) -> str:
        """The definition that a changelog is checked against. Grace is no part of it: grace may change between two runs."""
        return f"time windows of {self.size_ms} ms every {self.advance_ms} ms"


@dataclass(frozen=True, slots=True)
class SessionWindows(_Graced):
    """Sessions [first row, last row], both inclusive, of rows of a key at most `gap` apart.

    A session closes once stream time is past its end + gap + grace."""

    gap_ms: int
    grace_ms: int | None = None

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def with_gap(cls, gap: Duration) -> SessionWindows:
        """Rows at most `gap` apart (at least 1 ms) belong to one session."""
        return cls(to_ms(gap, "SessionWindows: gap", minimum=1))

    @property
    def wait_ms(self) -> int:
        return self.gap_ms + grace_of(self)

    @property
    def shortest_retention_ms(self) -> int:
        return self.gap_ms + grace_of(self)

    @property
    def shape(self) -> str:
        return f"session windows with a gap of {self.gap_ms} ms"


@dataclass(frozen=True, slots=True)
class SlidingWindows(_Graced):
    """Windows [s, s + difference], both inclusive, one for every distinct set of rows that fits in one.

    A window closes once stream time is past its end + grace."""

    difference_ms: int
    grace_ms: int | None = None

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def of_difference(cls, difference: Duration) -> SlidingWindows:
        """Rows of a window are at most `difference` (ms, a timedelta or a text) apart."""
        return cls(to_ms(difference, "SlidingWindows: time difference"))

    @property
    def wait_ms(self) -> int:
        return grace_of(self)

    @property
    def shortest_retention_ms(self) -> int:
        return 2 * self.difference_ms + grace_of(self)

    @property
    def shape(self) -> str:
        return f"sliding windows of {self.difference_ms} ms"


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window per key, from `start_ms` on, that never closes. Rows before its start belong to no window."""

    start_ms: int = 0
    grace_ms: int = 0

    inclusive_end: ClassVar[bool] = False

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """From the epoch on."""
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """From `start_ms` (milliseconds since the epoch) on."""
        return replace(self, start_ms=to_ms(start_ms, "UnlimitedWindows: start"))

    def starts(self, timestamp_ms: int) -> range:
        """Its one start, or nothing for a timestamp before it."""
        return range(self.start_ms, self.start_ms + (timestamp_ms >= self.start_ms))

    @property
    def wait_ms(self) -> int:
        return 0

    @property
    def shortest_retention_ms(self) -> int:
        return FOREVER

    @property
    def shape(self) -> str:
        return f"an unlimited window from {self.start_ms} ms"


Windows: TypeAlias = TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows


def grace_of(windows: Windows) -> int:
    """Grace in ms. Raises BuildError if none was given."""
    if windows.grace_ms is None:
        raise BuildError(f"{windows!r} {_NO_GRACE}")
    return windows.grace_ms
