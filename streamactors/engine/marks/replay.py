"""Replay: where a replayable source starts, where it places marks, and what it calls when positions are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Replay:
    """Settings of a replayable source (range, re-iterable, file lines); positions are element indices from 0.

    `start`: index of the first element to emit. `marks_at`: positions at which a mark must stand, besides those after
    each chunk. `on_done(position)`: called (from any thread, never concurrently) when every element before `position`
    is done at every sink of the run, or was dropped on purpose. A source with `on_done` reads marks."""

    start: int = 0
    marks_at: tuple[int, ...] = ()
    on_done: Callable[[int], None] | None = None

    @staticmethod
    def of(start: int = 0, marks_at: Iterable[int] = (), on_done: Callable[[int], None] | None = None) -> Replay:
        """Build a Replay from any iterable of mark positions."""
        return Replay(start, tuple(sorted(set(marks_at))), on_done)
