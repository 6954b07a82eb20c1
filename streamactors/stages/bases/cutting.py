"""CuttingLogic: the base of flows over bytes whose results do not follow the edges of the elements: frames, rows, decompressed blocks.

A mark waits while bytes from before it are still inside (`pending`), until the first result that ends after them. The inlet never hands
out elements from both sides of a mark, so every held mark lies within the unfinished result."""

from __future__ import annotations

from typing import Any, Final

from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.marks.marks import Mark
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import StreamError
from streamactors.stages.bases.emitting import WELL, EmittingLogic, keep

BYTES_AHEAD: Final = 1 << 20
"""About the most bytes that the demand of one stage covers. At least one element is always asked for, however long it is."""

_FIRST_WIDTH: Final = 16


class CuttingLogic(EmittingLogic):
    """Base of logics that cut bytes into results. Subclasses override `cut`, `pending` and, where bytes are left at the end, `finish`."""

    passes_marks = True
    flushes = True
    """False for a stage whose results do not show which elements they cover: its marks pass at the end only."""

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._held: list[Mark] = []
        self._width = _FIRST_WIDTH
        self._mean = 0.0

    # ── for subclasses ────────────────────────────────────────────────────────────────────────────────────────────

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        """Take byte strings and append what they complete to `results`; what was appended before an error is emitted."""
        raise NotImplementedError  # pragma: no cover

    def pending(self) -> bool:
        """Return True while bytes of an unfinished result are inside."""
        raise NotImplementedError  # pragma: no cover

    def finish(self, results: list[Any]) -> None:
        """Upstream has completed: append the last results, or raise when the bytes inside are not a whole result."""

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        most = self.attributes.max_chunk
        self._most = MAX_ASKED if most is None else most

    def ask(self, asked: int) -> None:
        self.in_.want(min(asked, self._width, self._most))

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(min(self.out.asked, self._width, self._most))
        if chunk:
            results: list[Any] = []
            try:
                self.cut(chunk, results)
            except Exception as error:  # noqa: BLE001  # bytes that are not what they should be
                self.emit_and_end(results, end=blame(named(error, self.name, chunk), self.name))
                return
            self._adapt(chunk)
            if results:
                self._emit_with_marks(results)
            elif self._held and not self.pending():
                self._pass_held()
        if self.out.asked and self._end is None:
            self.ask(self.out.asked)

    def _adapt(self, chunk: list[bytes]) -> None:
        """Follow the length of the elements, so that demand covers about BYTES_AHEAD."""
        mean = sum(map(len, chunk)) / len(chunk)
        self._mean = mean if not self._mean else self._mean + 0.3 * (mean - self._mean)
        fitting = int(BYTES_AHEAD / self._mean) if self._mean else MAX_ASKED
        self._width = max(1, min(self._width * 2, fitting, MAX_ASKED))

    def _emit_with_marks(self, results: list[Any]) -> None:
        if self._held and self.flushes:
            self.out.push(results[:1])  # it ends after every byte that came before the marks
            self._pass_held()
            results = results[1:]
        self.emit(results)

    def _pass_held(self) -> None:
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self.pending() or not self.flushes:
            keep(self._held, mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        results: list[Any] = []
        try:
            self.finish(results)
        except Exception as error:  # noqa: BLE001  # the bytes end too early
            self.emit_and_end(results, end=blame(error, self.name))
        else:
            self.emit_and_end(results, self._held, WELL)


def named(error: Exception, name: str, chunk: list[Any]) -> Exception:
    """Return the error to fail with: for an element of a wrong type one that says so."""
    if isinstance(error, TypeError):
        for element in chunk:
            if not isinstance(element, bytes | bytearray | memoryview):
                way_out = "; encode it: .map(str.encode)" if isinstance(element, str) else ""
                return NotBytes(f"{name} expects bytes, got {type(element).__name__} {shortened(element, 60)}{way_out}")
    return error


class NotBytes(StreamError, TypeError):
    """An operator over bytes was given an element of another type."""
