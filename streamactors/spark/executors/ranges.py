"""Ranges: what one task takes of one partition, and the names of the states at their ends.

A state is named after the position up to which the input was taken, and after what has happened there that is no record: the end of the
input ("120e"), or silence ("120i5000": 5,000 ms beyond idle_after). So a task that runs twice writes the same state twice."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from typing import Any, Final

from streamactors.kafka.subscriptions import TopicPartition

_NAME: Final = re.compile(r"(\d+)(e|i(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class At:
    """A place in the life of a task: the position, silence there, and whether the input ended there."""

    position: int
    idle_ms: int = 0
    ended: bool = False

    def __str__(self) -> str:
        return f"{self.position}{'e' if self.ended else f'i{self.idle_ms}' if self.idle_ms else ''}"

    @property
    def happened(self) -> bool:
        """True if something happened there that the topic does not tell."""
        return self.ended or self.idle_ms > 0


def at_of(name: str) -> At | None:
    """Return the place that a name stands for; None for a text that is no such name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    position, kind, idle = found.groups()
    return At(int(position), int(idle or 0), kind == "e")


@dataclass(frozen=True, slots=True)
class Range:
    """What a task takes: the records of `key` from `start` to before `end`, then silence or the end of the input if `end` says so.

    `first`: where the query has begun; there is no state there. `event`: the last place before `start` that the topic does not tell."""

    key: TopicPartition
    start: At
    end: At
    first: int
    event: At | None = None

    def packed(self) -> tuple[Any, ...]:
        """Return the range as plain tuples, which a worker without this package can read, too."""
        return astuple(self)

    @staticmethod
    def unpacked(packed: tuple[Any, ...]) -> Range:
        """Return the range that `packed` stands for."""
        key, start, end, first, event = packed
        return Range(TopicPartition(*key), At(*start), At(*end), first, None if event is None else At(*event))

    @property
    def idle_ms(self) -> int:
        """The silence within this range, in ms beyond idle_after."""
        if self.end.position != self.start.position or self.start.ended:
            return self.end.idle_ms
        return self.end.idle_ms - self.start.idle_ms
