"""Operators that emit lists of elements: grouped, sliding.

A mark waits until every list with an element from before it has been emitted; such a list may also hold elements from after the mark
(blurs). Both operators remember the elements of the list being filled."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Mark, merge_newer
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.emitting import EmittingLogic
from streamactors.stages.checks import positive


class Grouped(Stage[In, list[In]]):
    """The stage of `Source.grouped`."""

    handling = BLURS_MEMORY

    def __init__(self, n: int) -> None:
        self.n = self.step = positive("grouped", "n", n)


class Sliding(Stage[In, list[In]]):
    """The stage of `Source.pairwise` and `Source.sliding`."""

    handling = BLURS_MEMORY

    def __init__(self, n: int, step: int = 1) -> None:
        self.n = positive("sliding", "n", n)
        self.step = positive("sliding", "step", step)


@logic_of(Grouped, Sliding)
class _WindowLogic(EmittingLogic):
    """Positions count elements from 0; the next list begins at `_start`, and `_taken` elements have come."""

    def __init__(self, stage: Grouped[Any] | Sliding[Any]) -> None:
        super().__init__(stage)
        self._buffer: list[Any] = []  # the elements from `_start` on
        self._start = 0
        self._taken = 0
        self._covered = 0  # elements that were in a list or were dropped
        self._held: deque[tuple[int, Mark]] = deque()  # (position, mark)

    def ask(self, asked: int) -> None:
        self.in_.want(self._start + self.stage.n + (asked - 1) * self.stage.step - self._taken)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        n, step = self.stage.n, self.stage.step
        asked = out.asked
        chunk = in_.grab(self._start + n + (asked - 1) * step - self._taken)
        buffer = self._buffer
        ahead = self._start - self._taken  # elements to drop
        self._taken += len(chunk)
        buffer += chunk[ahead:] if ahead > 0 else chunk
        lists = (len(buffer) - n) // step + 1
        if lists > 0:
            made = [buffer[i : i + n] for i in range(0, lists * step, step)]
            self._covered = self._start + (lists - 1) * step + n
            del buffer[: lists * step]
            self._start += lists * step
            if self._held:
                self._push_between_marks(made)
            else:
                out.push(made)
        if out.asked:
            self.ask(out.asked)

    def _push_between_marks(self, made: list[Any]) -> None:
        out = self.out
        held = self._held
        step = self.stage.step
        first = self._start - len(made) * step  # the position of the first list
        while held:
            position, mark = held[0]
            before = min(len(made), max(0, -(-(position - first) // step)))  # lists that begin before the mark
            if before:
                out.push(made[:before])
                made = made[before:]
                first += before * step
            if first < position:
                break
            out.mark(mark)
            held.popleft()
        if made:
            out.push(made)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        held = self._held
        if self._start >= self._taken and not held:
            self.out.mark(mark)
        elif held and held[-1][0] == self._taken and isinstance(mark, dict) and isinstance(held[-1][1], dict):
            merge_newer(held[-1][1], mark)
        else:
            held.append((self._taken, mark.copy() if isinstance(mark, dict) else mark))

    def on_complete(self, in_: Connection) -> None:
        rest = [self._buffer] if self._taken > max(self._covered, self._start) else []
        self.emit_and_end(rest, [mark for _, mark in self._held])

    def snapshot_state(self) -> str:
        if self._held:
            return f"{len(self._buffer)} of {self.stage.n} elements, {len(self._held)} marks wait after them"
        return f"{len(self._buffer)} of {self.stage.n} elements"
