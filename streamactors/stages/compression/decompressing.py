"""DecompressingLogic: the base of flows that may make much of little input.

Compressed bytes wait inside, and the inlet is held, until everything they expand to has been pushed: block by block, as far as there is demand."""

from __future__ import annotations

from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import Mark
from streamactors.stages.bases.cutting import BYTES_AHEAD, CuttingLogic, named
from streamactors.stages.bases.emitting import keep


class DecompressingLogic(CuttingLogic):
    """Subclasses override `put`, `ready`, `block`, `unfinished` and `finish`. `stage.max_element` is the length of the longest block."""

    _full = False  # blocks may be waiting in the compressed bytes inside
    _made = False  # blocks were pushed since the first held mark

    # ── for subclasses ────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, chunk: list[bytes]) -> None:
        """Take compressed bytes; nothing is `ready`."""
        raise NotImplementedError  # pragma: no cover

    def ready(self) -> bool:
        """Return True while `block` can be called; False when more compressed bytes are needed."""
        raise NotImplementedError  # pragma: no cover

    def block(self) -> bytes:
        """Return the next block, perhaps empty."""
        raise NotImplementedError  # pragma: no cover

    def unfinished(self) -> bool:
        """Return True while the bytes so far end within a unit of the format."""
        raise NotImplementedError  # pragma: no cover

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(min(self.out.asked, self._width, self._most))
        if not chunk:
            return
        try:
            self.put(chunk)
        except TypeError as error:
            raise named(error, self.name, chunk) from None
        self._adapt(chunk)
        self._full = True
        in_.hold()
        self._push_blocks()

    def on_pull(self, out: Connection) -> None:
        if self._full:
            self._push_blocks()
        else:
            super().on_pull(out)

    def _push_blocks(self) -> None:
        """Push as many blocks as there is demand for, about BYTES_AHEAD at a time."""
        out = self.out
        blocks: list[bytes] = []
        most = min(out.asked, max(1, BYTES_AHEAD // self.stage.max_element), self._most)
        failure: Exception | None = None
        try:
            while len(blocks) < most and self.ready():
                block = self.block()
                if block:
                    blocks.append(block)
            self._full = self.ready()
        except Exception as error:  # noqa: BLE001  # damaged bytes; the blocks before them go out first
            failure = error
        if blocks:
            self._made = True
            out.push(blocks)
        if failure is not None:
            self.fail_stage(failure)
        elif self._full:
            if out.asked:
                out.again()
        else:
            if self._made:
                self._pass_held()
            self.in_.release()
            if out.asked:
                self.ask(out.asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self.unfinished():
            if not self._held:
                self._made = False
            keep(self._held, mark)
        else:
            self.out.mark(mark)

    def pending(self) -> bool:
        return self.unfinished()

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        raise NotImplementedError("decompressed by block()")  # pragma: no cover
