"""tail_file: the bytes of a file that grows, as `tail -F` follows it."""

from __future__ import annotations

import os
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import blame
from streamactors.stages.bases.cutting import BYTES_AHEAD
from streamactors.stages.checks import positive, span_ms
from streamactors.stages.defaults import BLOCK_BYTES
from streamactors.stages.files.io_result import Path, checked_path, naming


class TailFile(GraphStage):
    """The stage of `Source.tail_file`."""

    shape = SOURCE
    traits = StageTraits(endless=True)

    def __init__(self, path: Path, from_end: bool = False, poll: Duration = "250ms", block: int = BLOCK_BYTES) -> None:
        self.path = checked_path("tail_file", path)
        self.from_end = from_end
        self.poll_ms = span_ms("tail_file", "poll", poll)
        self.block = positive("tail_file", "block", block)


@logic_of(TailFile)
class _TailLogic(SourceLogic):
    stage: TailFile
    _file: Any = None
    _replaced = False

    def on_start(self) -> None:
        self._guarded(self._open_first)

    def _open_first(self) -> None:
        self._open()
        if self._file is not None and self.stage.from_end:
            self._file.seek(0, os.SEEK_END)

    def _open(self) -> None:
        try:
            self._file = open(self.stage.path, "rb", buffering=0)  # noqa: SIM115  # closed in on_stop
        except FileNotFoundError:
            self._file = None

    def _guarded(self, step: Any) -> None:
        try:
            step()
        except OSError as error:
            self.fail_stage(blame(naming(error, self.stage.path, self.name), self.name))

    def on_pull(self, out: Connection) -> None:
        if not self.is_timer_active("poll"):
            self._guarded(self._read)

    def on_timer(self, key: object) -> None:
        if self.out.asked:
            self._guarded(self._read)

    def _read(self) -> None:
        out = self.out
        if self._file is None:
            self._open()
        blocks: list[bytes] = []
        size = 0
        while self._file is not None and len(blocks) < out.asked and size < BYTES_AHEAD:
            block = self._file.read(self.stage.block)
            if block:
                blocks.append(block)
                size += len(block)
            elif not self._follow():
                break
        if blocks:
            out.push(blocks)
            if out.asked:
                out.again()
        elif not self.stopped:
            self.schedule_once("poll", self.stage.poll_ms)

    def _follow(self) -> bool:
        """The open file has no more bytes: look whether it was cut, or another has taken its place; return whether there is more to read."""
        own = os.fstat(self._file.fileno())
        if own.st_size < self._file.tell():
            self._file.seek(0)
            return True
        try:
            now = os.stat(self.stage.path)
        except FileNotFoundError:
            return False  # between the two steps of a rotation
        if (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino):
            return False
        if not self._replaced:
            self._replaced = True
            return True  # read once more: the writer may have used the old file until just now
        self._replaced = False
        self._file.close()
        self._open()
        return self._file is not None

    def on_stop(self) -> None:
        if self._file is not None:
            self._file.close()

    def snapshot_state(self) -> str:
        return (
            "waits for the file"
            if self._file is None
            else "at the end of the file"
            if self.is_timer_active("poll")
            else ""
        )
