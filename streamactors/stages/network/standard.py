"""from_stdin and to_stdout: the standard streams of this process."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from streamactors.engine.awaiting import when_done
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.stages.bases.cutting import named
from streamactors.stages.files.writing import FileObjectLogic, ToFileObject
from streamactors.stages.network.duplex import BLOCK_BYTES


class FromStdin(GraphStage):
    """The stage of `Source.from_stdin`."""

    shape = SOURCE
    traits = StageTraits(endless=True)


@logic_of(FromStdin)
class _StdinLogic(SourceLogic):
    """Waits on the asyncio loop until bytes have come, so that no thread blocks in `read`; a plain file never waits."""

    _cancel: Any = None

    def on_pull(self, out: Connection) -> None:
        if self._cancel is None:
            self._cancel = when_done(self, _read(sys.stdin.fileno()), self._came)

    def _came(self, data: bytes | None, error: BaseException | None) -> None:
        self._cancel = None
        if error is not None:
            self.fail_stage(error)
        elif not data:
            self.complete_stage()
        else:
            self.out.push([data])
            if self.out.asked:
                self.out.again()

    def on_stop(self) -> None:
        if self._cancel is not None:
            self._cancel()


async def _read(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _set, readable)
    except PermissionError:  # a plain file is always ready, and epoll refuses it
        return os.read(fd, BLOCK_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(fd)
    return os.read(fd, BLOCK_BYTES)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ToStdout(ToFileObject):
    """The stage of `Sink.to_stdout`."""

    def __init__(self) -> None:
        super().__init__(lambda: sys.stdout.buffer)


@logic_of(ToStdout)
class _StdoutLogic(FileObjectLogic):
    def write(self, chunk: list[Any]) -> int:
        try:
            written = super().write(chunk)
        except TypeError as error:
            raise named(error, self.name, chunk) from None
        self._file.flush()
        return written

    def close(self) -> None:
        """Standard output stays open."""
