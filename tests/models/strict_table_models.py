"""Strict rules of tables in plain Python: everything that was ever read is kept, and each answer is computed from all of it."""

from __future__ import annotations

from typing import Any


class Groups:
    """`table.group_by(group_of)` with the sorted values of each group; a group without values is deleted."""

    def __init__(self, group_of: Any) -> None:
        self.group_of = group_of
        self.table: dict[str, Any] = {}
        self.times: dict[Any, int] = {}

    def place(self, value: Any) -> Any:
        """The (group, value) of an entry; None if it has none."""
        if value is None or None in (found := self.group_of("", value)):
            return None
        return found

    def step(self, key: str, value: Any, time: int) -> list[tuple[Any, ...]]:
        """Return the results of one update: (group, values, time)."""
        before, now = self.place(self.table.pop(key, None)), self.place(value)
        out = []
        if before is not None and (now is None or now[0] != before[0]):
            out.append(self.result(before[0], time))
        self.table[key] = value
        if now is not None:
            out.append(self.result(now[0], time))
        return out

    def result(self, group: Any, time: int) -> tuple[Any, ...]:
        places = [place for place in map(self.place, self.table.values()) if place is not None]
        values = sorted(value for of, value in places if of == group)
        time = max(time, self.times.get(group, time))
        if values:
            self.times[group] = time
        else:
            self.times.pop(group, None)
        return group, values or None, time


class Windows:
    """The rows of each hopping window of a key; rows of all topics move one time."""

    def __init__(self, size: int, advance: int, grace: int) -> None:
        self.size, self.advance, self.grace = size, advance, grace
        self.time = -1
        self.rows: list[tuple[Any, ...]] = []
        self.late: list[tuple[str, int]] = []

    def step(self, topic: str, key: str, value: Any, time: int) -> list[tuple[Any, ...]]:
        """Return the updates of one row: (key, start, rows of the window, newest time)."""
        self.time = max(self.time, time)
        out = []
        for start in range(0, time + 1, self.advance):
            if not start <= time < start + self.size:
                continue
            if start + self.size + self.grace <= self.time:
                self.late.append((key, start))
                continue
            self.rows.append((key, start, (topic, value), time))
            inside = [row for row in self.rows if row[:2] == (key, start)]
            out.append((key, start, [row[2] for row in inside], max(row[3] for row in inside)))
        return out


class Finals:
    """The number of rows in each tumbling window of a key, given out when the window closes."""

    def __init__(self, size: int, grace: int) -> None:
        self.size, self.grace = size, grace
        self.time = -1
        self.rows: list[tuple[str, int, int]] = []
        self.given: dict[tuple[str, int], tuple[int, int]] = {}

    def step(self, key: str, time: int) -> list[tuple[str, int]]:
        """Take a row; return the (key, start) of the windows that it closes."""
        self.time = max(self.time, time)
        start = time // self.size * self.size
        if start + self.size + self.grace > self.time:
            self.rows.append((key, start, time))
        windows = {(key, start) for key, start, _ in self.rows} - self.given.keys()
        due = sorted((start, key) for key, start in windows if start + self.size + self.grace <= self.time)
        for start, key in due:
            times = [time for each, begin, time in self.rows if (each, begin) == (key, start)]
            self.given[key, start] = len(times), max(times)
        return [(key, start) for start, key in due]


class JoinedFinals:
    """Two tables of final counts, joined: a side shows what it has given out, and nothing else."""

    def __init__(self, size: int, grace: int, how: str) -> None:
        self.how = how
        self.sides = {"left": Finals(size, grace), "right": Finals(size, grace)}

    def step(self, side: str, key: str, time: int) -> list[tuple[Any, ...]]:
        """Return the results of one row: (key, start, left count, right count, time)."""
        out = []
        mine = self.sides[side]
        known = dict(mine.given)
        for where in mine.step(key, time):
            known[where] = mine.given[where]
            shown = {name: finals.given.get(where) for name, finals in self.sides.items()}
            left, right = shown["left"], shown["right"]
            if (left is None and self.how != "outer") or (right is None and self.how == "inner"):
                continue
            counts = [None if each is None else each[0] for each in (left, right)]
            out.append((*where, *counts, max(each[1] for each in (left, right) if each is not None)))
        return out


class AsOf:
    """A stream joined with the version of a table that was valid at the time of the row. `grace`: rows wait so long; None: they do not."""

    def __init__(self, history: int, grace: int | None, left: bool) -> None:
        self.history, self.grace, self.left = history, grace, left
        self.puts: list[tuple[str, int, Any]] = []
        self.table_time = self.stream_time = -1
        self.waiting: list[tuple[int, bytes, int, str, Any]] = []
        self.arrived = 0
        self.dropped = 0

    def put(self, key: str | None, value: Any, time: int) -> None:
        if key is None:
            self.dropped += 1
            return
        self.table_time = max(self.table_time, time)
        if time < self.table_time - self.history:
            self.dropped += 1
        else:
            self.puts.append((key, time, value))

    def valid(self, key: str, time: int) -> Any:
        """The value of a key at a time; of several puts with one time, the last."""
        versions = {at: value for each, at, value in self.puts if each == key}
        newest = max(versions, default=None)
        if newest is None or (newest > time and time < self.table_time - self.history):
            return None
        found = max((at for at in versions if at <= time), default=None)
        return None if found is None else versions[found]

    def row(self, key: str | None, value: Any, time: int) -> list[tuple[Any, ...]]:
        """Return the results of a row of the stream: (key, row, table's value, time)."""
        if value is None or (key is None and not self.left):
            self.dropped += 1
            return []
        if key is None:
            return [(key, value, None, time)]
        if self.grace is None:
            return self.result(key, value, time)
        self.stream_time = max(self.stream_time, time)
        if time < self.stream_time - self.grace:
            self.dropped += 1
            return []
        self.arrived += 1
        self.waiting.append((time, key.encode(), self.arrived, key, value))
        out = []
        for each in sorted(self.waiting):
            if each[0] <= self.stream_time - self.grace:
                self.waiting.remove(each)
                out += self.result(each[3], each[4], each[0])
        return out

    def result(self, key: str, value: Any, time: int) -> list[tuple[Any, ...]]:
        found = self.valid(key, time)
        return [] if found is None and not self.left else [(key, value, found, time)]
