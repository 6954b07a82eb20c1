"""Days of a time zone: when they begin, in ms since 1970, and the windows of whole days.

Days are numbered from 1970-01-01 of the zone. Day n begins at the first moment at which the clock of the zone shows its midnight, or the offset after
it, or a later time: where the clock skips that time, at the change. A day that the zone leaves out, as Samoa did in 2011, has no length, and of
windows that begin together there is the last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamactors.errors import BuildError

DAY_MS: Final = 86_400_000
_FIRST: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def check_zone(zone: object) -> None:
    """Raise BuildError unless `zone` is the name of a time zone that this machine knows."""
    if not isinstance(zone, str):
        raise BuildError(f'TimeWindows: in_zone expects the name of a time zone, such as "Europe/Oslo", got {zone!r}')
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BuildError(
            f"TimeWindows: no time zone {zone!r} on this machine; names are those of the IANA database, such as Europe/Oslo (without a system "
            "database: pip install tzdata)"
        ) from None


class ZoneDays:
    """The windows of whole days of one definition. Immutable; its answers are kept."""

    def __init__(self, zone: str, size_ms: int, advance_ms: int, offset_ms: int) -> None:
        self._zone = ZoneInfo(zone)
        self._size = size_ms // DAY_MS
        self._advance = advance_ms // DAY_MS
        self._offset_days, clock_ms = divmod(offset_ms, DAY_MS)
        self._clock = timedelta(milliseconds=clock_ms)
        self.begin = lru_cache(4_096)(self._begin)

    def _begin(self, day: int) -> int:
        """Return when a day begins."""
        wall = datetime.fromordinal(_FIRST + day) + self._clock
        by_clock_before = self._moment(wall, 0)
        by_clock_after = self._moment(wall, 1)
        if by_clock_after >= by_clock_before:  # the clock shows this time once or twice
            return by_clock_before
        early, late = by_clock_after, by_clock_before  # it skips this time, at a change between the two
        while late - early > 1:
            middle = (early + late) // 2
            if self._local(middle) >= wall:
                late = middle
            else:
                early = middle
        return late

    def _moment(self, wall: datetime, fold: int) -> int:
        """Return ms since 1970 of a time of the clock; fold 0: by the clock before a change, 1: by that after it."""
        return (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) - _EPOCH) // _MS

    def _local(self, timestamp_ms: int) -> datetime:
        """Return what the clock shows."""
        return (_EPOCH + timestamp_ms * _MS).astimezone(self._zone).replace(tzinfo=None)

    def day(self, timestamp_ms: int) -> int:
        """Return the day that contains a timestamp."""
        day = self._local(timestamp_ms).toordinal() - _FIRST
        while timestamp_ms < self.begin(day):
            day -= 1
        while timestamp_ms >= self.begin(day + 1):
            day += 1
        return day

    def _first(self, day: int) -> int:
        """Return the last day up to `day` on which a window begins."""
        return day - (day - self._offset_days) % self._advance

    def starts(self, timestamp_ms: int) -> Sequence[int]:
        """The starts of the windows that contain a timestamp, ascending, never negative."""
        day = self.day(timestamp_ms)
        last = self._first(day)
        first = last - (self._size - 1 - (day - last)) // self._advance * self._advance
        found = [self.begin(each) for each in range(first, last + 1, self._advance)]
        return sorted({start for start in found if start >= 0})  # of windows that begin together there is the last

    def slot(self, timestamp_ms: int) -> tuple[int, int]:
        """Begin and end of the day."""
        day = self.day(timestamp_ms)
        return self.begin(day), self.begin(day + 1)

    def end(self, start_ms: int) -> int:
        """The end of the window that begins at `start_ms`."""
        return self.begin(self._first(self.day(start_ms)) + self._size)

    def closed_through(self, limit_ms: int) -> int:
        """The start of the last window that ends by `limit_ms`; -1 if there is none."""
        if limit_ms < 0:
            return -1
        day = self._first(self.day(limit_ms) - self._size)
        while self.begin(day) == self.begin(day + self._advance):
            day -= self._advance
        return self.begin(day)


@lru_cache(64)
def zone_days(zone: str, size_ms: int, advance_ms: int, offset_ms: int) -> ZoneDays:
    """Return the days of a definition; equal definitions share them."""
    return ZoneDays(zone, size_ms, advance_ms, offset_ms)
