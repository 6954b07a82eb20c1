"""Ranges: what one task takes of one partition, and the names of the states at their ends.

A state is named after the position up to which the input was read, and after what has happened there that is not a record: the end of the
input ("120e"), or silence ("120i5000": 5,000 ms beyond idle_after). So a task that runs twice writes the same state twice. A task of
windows over several topics reads the partitions of one number, and its places have a position of each ("120+80")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from heapq import heapify, heapreplace
from typing import Any, Final

from streamactors.kafka.subscriptions import TopicPartition

_NAME: Final = re.compile(r"(\d+)((?:\+\d+)*)(e|i(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class At:
    """A place in the life of a task: the position, silence there, and whether the input ended there, which comes after all silence.

    `beside`: the positions in the other partitions of the task. An end has no `idle_ms`, and each place of a task has a name of its own."""

    position: int
    beside: tuple[int, ...] = field(default=(), kw_only=True)
    ended: bool = field(default=False, kw_only=True)
    idle_ms: int = 0

    def __str__(self) -> str:
        positions = "+".join(map(str, self.positions))
        return f"{positions}{'e' if self.ended else f'i{self.idle_ms}' if self.idle_ms else ''}"

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions in all partitions of the task."""
        return self.position, *self.beside

    @property
    def happened(self) -> bool:
        """True if the end of the input, or silence, was reached there, which the topic does not show."""
        return self.ended or self.idle_ms > 0


def at_of(name: str) -> At | None:
    """Return the place that a name stands for; None for a string that is not such a name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    position, beside, kind, idle = found.groups()
    return At(int(position), int(idle or 0), ended=kind == "e", beside=tuple(map(int, beside.split("+")[1:])))


@dataclass(frozen=True, slots=True)
class Beside:
    """The other partitions of a task over several topics, and where the query has begun in them.

    `done`: one flag for each partition of the task, `key` first: the broker had no record after the end of the range when the batch was
    planned. `done_before`: the same for the start of the range."""

    keys: tuple[TopicPartition, ...]
    firsts: tuple[int, ...]
    done: tuple[bool, ...]
    done_before: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """What a task takes: the records of `key` from `start` to before `end`, then silence or the end of the input if `end` says so.

    `first`: where the query has begun; there is no state there. `event`: the last place before `start` that the topic does not show."""

    key: TopicPartition
    start: At
    end: At
    first: int
    event: At | None = None
    beside: Beside | None = None

    @property
    def begin(self) -> At:
        """The place where the query has begun."""
        return At(self.first, beside=() if self.beside is None else self.beside.firsts)

    def packed(self) -> tuple[Any, ...]:
        """Return the range as plain tuples, which a worker without this package can read, too."""
        return astuple(self)

    @staticmethod
    def unpacked(packed: tuple[Any, ...]) -> Range:
        """Return the range that `packed` stands for."""
        key, start, end, first, event, beside = packed
        if beside is not None:
            keys, firsts, done, done_before = beside
            beside = Beside(tuple(TopicPartition(*each) for each in keys), firsts, done, done_before)
        happened = None if event is None else _at(*event)
        return Range(TopicPartition(*key), _at(*start), _at(*end), first, happened, beside)

    @property
    def idle_ms(self) -> int:
        """The silence within this range, in ms beyond idle_after."""
        if self.end.positions != self.start.positions or self.start.ended or self.end.ended:
            return self.end.idle_ms
        return self.end.idle_ms - self.start.idle_ms


def _at(position: int, beside: tuple[int, ...], ended: bool, idle_ms: int) -> At:
    return At(position, idle_ms, ended=ended, beside=beside)


def split(ranges: Sequence[Range], tasks: int) -> list[Range]:
    """Return ranges without windows, cut into at least `tasks` pieces as far as there are so many offsets."""
    spans = [(each.start.position, each.end.position) for each in ranges]
    return [
        replace(each, start=At(start), end=At(end))
        for each, pieces in zip(ranges, cut(spans, tasks), strict=True)
        for start, end in pieces
    ]


def cut(spans: Sequence[tuple[int, int]], tasks: int) -> list[list[tuple[int, int]]]:
    """Return the pieces of each span (first offset, offset after the last): `tasks` in all, as equal as they get.

    No piece is empty, and no span is joined with another: there are more pieces if there are more spans, fewer if there are fewer offsets."""
    parts = [1] * len(spans)
    largest = [(first - last, i) for i, (first, last) in enumerate(spans)]  # a heap has its smallest number first
    heapify(largest)
    for _ in range(tasks - len(spans)):
        if not largest or largest[0][0] >= -1:
            break  # every piece is one offset
        _, i = largest[0]
        parts[i] += 1
        first, last = spans[i]
        heapreplace(largest, ((first - last) // parts[i], i))  # rounded away from zero: the size of the largest piece
    return [
        [(first + (last - first) * n // count, first + (last - first) * (n + 1) // count) for n in range(count)]
        for (first, last), count in zip(spans, parts, strict=True)
    ]
