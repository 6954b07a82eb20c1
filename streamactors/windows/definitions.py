"""Window definitions: which windows a timestamp belongs to, and when they close.

Owner: the user's blueprint; immutable. Boundaries, order and limits are those of Kafka Streams (TimeWindows,
SessionWindows, SlidingWindows, UnlimitedWindows). All times are milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeAlias

from streamactors.errors import BuildError
from streamactors.windows.duration import MAX_MS, Duration, to_ms

FOREVER: Final = MAX_MS
"""End of an unlimited window."""

_NO_GRACE: Final = (
    'has no grace period: say how late a row may come with .with_grace("1m"), or .with_no_grace(). '
    "There is no default, because a long silent one is why final results seem never to come"
)


@dataclass(frozen=True, slots=True)
class TimeWindows:
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

    def with_grace(self, grace: Duration) -> TimeWindows:
        """Accept rows until stream time has passed a window's end by `grace`."""
        return replace(self, grace_ms=to_ms(grace, "TimeWindows: grace"))

    def with_no_grace(self) -> TimeWindows:
        """Close a window as soon as stream time reaches its end."""
        return replace(self, grace_ms=0)

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Hopping windows: a new one starts every `advance`, which must lie in (0, size]."""
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
        """How far stream time must pass a window's end until it is closed."""
        return grace_of(self)

    @property
    def shortest_retention_ms(self) -> int:
        return self.size_ms + grace_of(self)

    @property
    def shape(self) -> str:
        """What kept state depends on; grace may change between two runs, this may not."""
        return f"time windows of {self.size_ms} ms every {self.advance_ms} ms"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions [first row, last row], both inclusive, of rows of a key at most `gap` apart."""

    gap_ms: int
    grace_ms: int | None = None

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def with_gap(cls, gap: Duration) -> SessionWindows:
        """Rows at most `gap` apart (at least 1 ms) belong to one session."""
        return cls(to_ms(gap, "SessionWindows: gap", minimum=1))

    def with_grace(self, grace: Duration) -> SessionWindows:
        """Keep a session open for `grace` beyond the gap."""
        return replace(self, grace_ms=to_ms(grace, "SessionWindows: grace"))

    def with_no_grace(self) -> SessionWindows:
        """Close a session as soon as stream time has passed its end by more than the gap."""
        return replace(self, grace_ms=0)

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
class SlidingWindows:
    """Windows [s, s + difference], both inclusive, one for every distinct set of rows that fits in one."""

    difference_ms: int
    grace_ms: int | None = None

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def of_difference(cls, difference: Duration) -> SlidingWindows:
        """Rows of a window are at most `difference` apart."""
        return cls(to_ms(difference, "SlidingWindows: time difference"))

    def with_grace(self, grace: Duration) -> SlidingWindows:
        """Accept rows until stream time has passed a window's end by `grace`."""
        return replace(self, grace_ms=to_ms(grace, "SlidingWindows: grace"))

    def with_no_grace(self) -> SlidingWindows:
        """Close a window as soon as stream time has passed its end."""
        return replace(self, grace_ms=0)

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
    """One window [start, for ever) per key. It never closes; rows before its start match no window."""

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
