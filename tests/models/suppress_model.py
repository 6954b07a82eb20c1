"""suppress() as a plain loop: what is held, until when, and what happens when it is too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.models.window_case import Case
from tests.models.window_update import Full, Update


def size_of(value: Any) -> int:
    return 0 if value is None else 8 if isinstance(value, int) else len(value.encode())


@dataclass
class Held:
    time: int
    order: bytes
    prior: Any
    last: Update

    def size(self) -> int:
        old = 0 if self.last.old == self.prior else size_of(self.last.old)
        return 8 + len(self.order) + size_of(self.prior) + old + size_of(self.last.new) + 8 + 8 + len("input") + 4


class SuppressModel:
    """The buffer as a list."""

    def __init__(self, case: Case, step: tuple[Any, ...]) -> None:
        self.case = case
        self.time = -1
        self.held: dict[tuple[Any, ...], Held] = {}
        self.final = step[0] == "final"
        if self.final:
            self.records, self.bytes, self.early = step[1], step[2], False
            kind = case.windows[0]
            self.wait = {
                "time": case.windows[-1],
                "session": sum(case.windows[1:]) if kind == "session" else 0,
                "sliding": case.windows[-1],
                "unlimited": 0,
            }[kind]
            self.strictly_past = case.semantics == "strict" and kind in ("session", "sliding")
        else:
            self.wait, self.records, self.bytes = step[1:4]
            self.early = step[4] == "emit_early"
            self.strictly_past = False

    def order(self, update: Update) -> bytes:
        key = update.key.encode()
        if update.start is None:
            return key
        start = update.start.to_bytes(8, "big")
        if self.case.windows[0] == "session":
            return key + update.end.to_bytes(8, "big") + start
        return key + start

    def take(self, update: Update) -> list[Update]:
        self.time = max(self.time, update.timestamp)
        where = update[:3]
        if where in self.held:
            self.held[where].last = update
        else:
            time = update.end if self.final else update.timestamp
            self.held[where] = Held(time, self.order(update), update.old, update)
        out: list[Update] = []
        while self.held and self.is_due(self.first()):
            self.give(out)
        while self.is_full():
            if not self.early:
                raise Full(out, len(self.held), self.weight())
            self.give(out)
        return out

    def first(self) -> Held:
        return min(self.held.values(), key=lambda held: (held.time, held.order))

    def is_due(self, held: Held) -> bool:
        past = self.time - self.wait
        return held.time < past if self.strictly_past else held.time <= past

    def give(self, out: list[Update]) -> None:
        update = self.first().last
        del self.held[update[:3]]
        if update.new is not None or not self.final:
            out.append(update)

    def weight(self) -> int:
        return sum(held.size() for held in self.held.values())

    def is_full(self) -> bool:
        return (self.records is not None and len(self.held) > self.records) or (
            self.bytes is not None and self.weight() > self.bytes
        )
