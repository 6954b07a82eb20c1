"""Strict stream-stream joins in plain Python: lists of all rows ever accepted, scanned from the beginning each time."""

from __future__ import annotations

from typing import Any

Row = tuple[str, "str | None", "str | None", int]
"""(side "left" or "right", key, value, time)."""


class StrictJoin:
    """`how`: inner, left or outer. `step` returns the results of one row: (key, left value, right value, time)."""

    def __init__(self, before: int, after: int, grace: int, how: str) -> None:
        self.before, self.after, self.grace, self.how = before, after, grace, how
        self.time = -1
        self.rows: list[dict[str, Any]] = []
        self.dropped = 0

    def alone(self, side: str) -> bool:
        return self.how == "outer" or (self.how == "left" and side == "left")

    def reach(self, side: str) -> int:
        return (self.after if side == "left" else self.before) + self.grace

    def step(self, row: Row) -> list[tuple[Any, ...]]:
        side, key, value, time = row
        if value is None or (key is None and not self.alone(side)):
            self.dropped += 1
            return []
        if key is None:
            return [result(key, side, value, time)]
        if time + max(self.reach(side) - self.grace, 0) + self.grace < self.time:
            self.dropped += 1
            return []
        self.time = max(self.time, time)
        out = []
        due = [each for each in self.rows if each["waits"] and each["time"] + self.reach(each["side"]) < self.time]
        for each in sorted(due, key=lambda e: (e["time"], e["side"] == "left", e["key"].encode(), e["at"])):
            out.append(result(each["key"], each["side"], each["value"], each["time"]))
            self.rows.remove(each)
        matches = []
        for each in self.rows:
            left, right = (time, each["time"]) if side == "left" else (each["time"], time)
            if each["side"] != side and each["key"] == key and left - self.before <= right <= left + self.after:
                matches.append(each)
        for each in sorted(matches, key=lambda e: (e["time"], e["at"])):
            pair = (value, each["value"]) if side == "left" else (each["value"], value)
            out.append((key, *pair, max(time, each["time"])))
            each["waits"] = False
        waits = not matches and self.alone(side)
        self.rows.append({"side": side, "key": key, "value": value, "time": time, "waits": waits, "at": len(self.rows)})
        for at, each in enumerate(self.rows):
            each["at"] = at
        return out


def result(key: Any, side: str, value: Any, time: int) -> tuple[Any, ...]:
    return (key, value, None, time) if side == "left" else (key, None, value, time)
