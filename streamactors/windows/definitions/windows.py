"""Window definitions: which windows a timestamp belongs to, and when they close.

Owner: the user's blueprint; immutable. Boundaries, order and limits are those of Kafka Streams (TimeWindows,
SessionWindows, SlidingWindows, UnlimitedWindows). All times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from streamactors.durations import MAX_MS, EventSpan, event_ms
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least
from streamactors.windows.definitions import days

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

    def with_grace(self: G, grace: EventSpan) -> G:
        """Accept rows for `grace` (ms, a timedelta or a string) of stream time after a window's end.

        A window whose end belongs to it (sessions, sliding windows) closes when stream time is past its end + grace, another one when
        stream time is at it."""
        return self._with(event_ms(grace, f"{type(self).__name__}: grace"))

    def with_no_grace(self: G) -> G:
        """Close a window as soon as stream time reaches its end; where the end is inclusive, once it has passed it."""
        return self._with(0)

    def _with(self: G, grace_ms: int) -> G:
        changes: dict[str, Any] = {"grace_ms": grace_ms}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class TimeWindows(_Graced):
    """Windows [n * advance + offset, n * advance + offset + size), aligned to the epoch; tumbling unless `advance_by` is given.

    In a time zone they are aligned to its midnights: a day in which the clock is changed has 23 or 25 hours. A window closes once stream time
    reaches its end + grace. There are no windows that begin before 1970."""

    size_ms: int
    """The length of a window, in milliseconds of event time."""
    advance_ms: int
    """The time from the start of a window to the start of the next one, in milliseconds of event time."""
    grace_ms: int | None = None
    """How late a row may come, in milliseconds of event time. None: `grace` was not called."""
    offset_ms: int = 0
    """By how much the windows are moved against the epoch, or against midnight, in milliseconds."""
    zone: str | None = None
    """The time zone whose midnights the windows are aligned to, such as Europe/Berlin. None: UTC."""

    inclusive_end: ClassVar[bool] = False

    @classmethod
    def of_size(cls, size: EventSpan) -> TimeWindows:
        """Tumbling windows of `size` (at least 1 ms)."""
        size_ms = event_ms(size, "TimeWindows: size", minimum=1)
        return cls(size_ms, size_ms)

    def advance_by(self, advance: EventSpan) -> TimeWindows:
        """Hopping windows: a new one starts every `advance` (ms, a timedelta or a string), which must lie in (0, size]."""
        advance_ms = event_ms(advance, "TimeWindows: advance", minimum=1)
        if advance_ms > self.size_ms:
            raise BuildError(
                f"TimeWindows: advance is {advance_ms} ms, more than the size {self.size_ms} ms: "
                "rows in the gaps would belong to no window; make it at most the size"
            )
        return self._checked(replace(self, advance_ms=advance_ms))

    def with_offset(self, offset: EventSpan) -> TimeWindows:
        """Windows that begin `offset` later (ms, a timedelta or a string), less than the advance: days from six o'clock, weeks from Monday ("4d",
        because 1970 began on a Thursday)."""
        return self._checked(replace(self, offset_ms=event_ms(offset, "TimeWindows: offset")))

    def in_zone(self, zone: str) -> TimeWindows:
        """Windows of whole days in a time zone, such as "Europe/Oslo": they begin at its midnight, or `offset` later by its clock.

        Size and advance must be whole days. Raises BuildError for an unknown zone."""
        days.check_zone(zone)
        return self._checked(replace(self, zone=zone))

    def _checked(self, windows: TimeWindows) -> TimeWindows:
        """Return `windows` if their offset and zone fit their size."""
        if windows.offset_ms >= windows.advance_ms and windows.offset_ms:
            raise BuildError(
                f"TimeWindows: offset is {windows.offset_ms} ms, and a window begins every {windows.advance_ms} ms; give advance_by first, and "
                f"an offset below it, such as {windows.offset_ms % windows.advance_ms} ms"
            )
        if windows.zone is not None and (windows.size_ms % days.DAY_MS or windows.advance_ms % days.DAY_MS):
            raise BuildError(
                f"TimeWindows: windows in the zone {windows.zone} need a size and an advance of whole days, got {windows.size_ms} ms every "
                f"{windows.advance_ms} ms; shorter windows need no zone: with_offset aligns them"
            )
        return windows

    def starts(self, timestamp_ms: int) -> Sequence[int]:
        """Starts of the windows that contain `timestamp_ms`, ascending, never negative."""
        if self.zone is not None:
            return self._days.starts(timestamp_ms)
        advance, offset = self.advance_ms, self.offset_ms
        first = max(0, timestamp_ms - offset - self.size_ms + advance) // advance * advance
        return range(first + offset, timestamp_ms + 1, advance)

    def slot(self, timestamp_ms: int) -> tuple[int, int]:
        """Begin and end of a span around `timestamp_ms` whose timestamps all have the same windows."""
        if self.zone is not None:
            return self._days.slot(timestamp_ms)
        granule = gcd(self.size_ms, self.advance_ms)
        begin = timestamp_ms - (timestamp_ms - self.offset_ms) % granule
        return begin, begin + granule

    def end(self, start_ms: int) -> int:
        """The exclusive end of the window that begins at `start_ms`."""
        return start_ms + self.size_ms if self.zone is None else self._days.end(start_ms)

    def closed_through(self, limit_ms: int) -> int:
        """A time at or after the start of every window that ends by `limit_ms`, and before the start of every other window."""
        return limit_ms - self.size_ms if self.zone is None else self._days.closed_through(limit_ms)

    @property
    def _days(self) -> days.ZoneDays:
        assert self.zone is not None
        return days.zone_days(self.zone, self.size_ms, self.advance_ms, self.offset_ms)

    @property
    def fixed_size_ms(self) -> int | None:
        """The size, if all windows have it."""
        return self.size_ms if self.zone is None else None

    @property
    def wait_ms(self) -> int:
        """Distance from a window's end to the stream time that closes the window."""
        return grace_of(self)

    @property
    def shortest_retention_ms(self) -> int:
        longest = self.size_ms if self.zone is None else self.size_ms + days.DAY_MS
        return longest + grace_of(self)

    @property
    def shape(self) -> str:
        """The definition that a changelog is checked against. Grace is not part of it: grace may change between two runs."""
        offset = f" from {self.offset_ms} ms" if self.offset_ms else ""
        zone = f" in {self.zone}" if self.zone is not None else ""
        return f"time windows of {self.size_ms} ms every {self.advance_ms} ms{offset}{zone}"


@dataclass(frozen=True, slots=True)
class SessionWindows(_Graced):
    """Sessions [first row, last row], both inclusive, of rows of a key at most `gap` apart.

    A session closes once stream time is past its end + gap + grace."""

    gap_ms: int
    """The longest pause inside a session, in milliseconds of event time."""
    grace_ms: int | None = None
    """How late a row may come, in milliseconds of event time. None: `grace` was not called."""

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def with_gap(cls, gap: EventSpan) -> SessionWindows:
        """Rows at most `gap` apart (at least 1 ms) belong to one session."""
        return cls(event_ms(gap, "SessionWindows: gap", minimum=1))

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
    """The length of a window, in milliseconds of event time."""
    grace_ms: int | None = None
    """How late a row may come, in milliseconds of event time. None: `grace` was not called."""

    inclusive_end: ClassVar[bool] = True

    @classmethod
    def of_difference(cls, difference: EventSpan) -> SlidingWindows:
        """Rows of a window are at most `difference` (ms, a timedelta or a string) apart."""
        return cls(event_ms(difference, "SlidingWindows: time difference"))

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
    """Where the window begins, in milliseconds since the epoch."""
    grace_ms: int = 0
    """Without effect, since the window never closes."""

    inclusive_end: ClassVar[bool] = False

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """From the epoch on."""
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """From `start_ms` (milliseconds since the epoch) on."""
        return replace(self, start_ms=at_least("UnlimitedWindows", "start_ms", start_ms, 0))

    def starts(self, timestamp_ms: int) -> Sequence[int]:
        """Its one start, or nothing for a timestamp before it."""
        return range(self.start_ms, self.start_ms + (timestamp_ms >= self.start_ms))

    def slot(self, timestamp_ms: int) -> tuple[int, int]:
        """The time before its start, or after it."""
        return (0, self.start_ms) if timestamp_ms < self.start_ms else (self.start_ms, FOREVER)

    def end(self, start_ms: int) -> int:
        """It has none."""
        return FOREVER

    def closed_through(self, limit_ms: int) -> int:
        """It closes at the end of the input only, which is later than each timestamp."""
        return max(limit_ms - FOREVER, -1)

    @property
    def fixed_size_ms(self) -> int | None:
        """None: its end is fixed."""
        return None

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
