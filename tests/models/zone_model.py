"""Windows of whole days in a time zone, written from their rule alone: the clock of the zone is read every quarter of an hour, and a day begins
when it shows the time of its beginning, or a later one, for the first time. It imports nothing of what it judges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

QUARTER_MS = 15 * 60_000


class ZoneModel:
    """The windows around `middle_ms` of `size` days, every `advance` days; a day begins `offset` quarters of an hour after midnight."""

    def __init__(self, zone: str, middle_ms: int, size: int, advance: int, offset: int, days: int = 12) -> None:
        clock = ZoneInfo(zone)
        begin = (middle_ms // QUARTER_MS - days * 96) * QUARTER_MS
        first_day: int | None = None
        self.begins: dict[int, int] = {}  # by day, counted from 1970-01-01
        for moment in range(begin, begin + 2 * days * 96 * QUARTER_MS, QUARTER_MS):
            shown = datetime.fromtimestamp(moment / 1_000, UTC).astimezone(clock).replace(tzinfo=None)
            day = (shown - timedelta(minutes=15 * (offset % 96)) - datetime(1970, 1, 1)).days
            if first_day is None:
                first_day = reached = day
            for each in range(reached + 1, day + 1):
                self.begins[each] = moment
            reached = max(reached, day)
        self.size, self.advance, self.shift = size, advance, offset // 96

    def windows(self, timestamp_ms: int) -> list[tuple[int, int]]:
        """Start and end of each window that contains a timestamp, ascending."""
        found = {
            (begin, self.begins[day + self.size])
            for day, begin in self.begins.items()
            if (day - self.shift) % self.advance == 0
            and day + self.size in self.begins
            and begin != self.begins[day + self.advance]  # of windows that begin together there is the last
        }
        return sorted((begin, end) for begin, end in found if begin <= timestamp_ms < end and begin >= 0)
