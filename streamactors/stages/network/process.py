"""through_process: a child process as a flow, through its standard input and output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from streamactors.durations import Duration
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import OPAQUE
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, ProcessFailed
from streamactors.stages.checks import span_ms
from streamactors.stages.network.duplex import BLOCK_BYTES, DuplexLogic

_KEPT_OF_STDERR: Final = 2_000


class ThroughProcess(Stage[bytes, bytes]):
    """The stage of `Source.through_process`."""

    handling = OPAQUE  # a mark has no place in the output of a process, which joins and splits its input as it likes

    def __init__(
        self,
        *command: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
        grace: Duration = "5s",
    ) -> None:
        if not command or not all(isinstance(word, str | os.PathLike) for word in command):
            raise BuildError(
                f'through_process expects a program and its arguments as strings, such as "sort", "-n"; got {shortened(command, 60)}'
            )
        self.command = [os.fspath(word) for word in command]
        self.cwd = cwd
        self.env = None if env is None else dict(env)
        self.accept = tuple(accept)
        self.grace_ms = span_ms("through_process", "grace", grace)


@logic_of(ThroughProcess)
class _ProcessLogic(DuplexLogic):
    stage: ThroughProcess
    one_end = True
    _process: asyncio.subprocess.Process | None = None
    _listening: asyncio.Task[None] | None = None

    def __init__(self, stage: ThroughProcess) -> None:
        super().__init__(stage)
        self._stderr = b""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        stage = self.stage
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            *stage.command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=stage.cwd, env=stage.env, limit=BLOCK_BYTES
        )
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        self._listening = asyncio.create_task(self._listen(process.stderr))
        return process.stdout, process.stdin

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(BLOCK_BYTES):
            self._stderr = (self._stderr + data)[-_KEPT_OF_STDERR:]

    async def _write(self, data: bytes) -> None:
        try:
            await super()._write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The process has closed its input. Its output and its exit code say why.

    async def _end_of_file(self) -> None:
        try:
            await super()._end_of_file()
        except (BrokenPipeError, ConnectionResetError):
            pass

    async def disconnect(self) -> None:
        process = self._process
        assert process is not None
        if self._writer is not None:
            self._writer.close()
        if self.out.cause is not None:
            return  # cancelled: `abandon` ends the process
        code = await process.wait()
        assert self._listening is not None
        await self._listening
        if code not in self.stage.accept:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            written = self._stderr.decode(errors="replace").strip()
            raise ProcessFailed(
                f"process {' '.join(self.stage.command)!r} {how}{f'; it wrote: {written}' if written else ''}", code
            )

    async def abandon(self) -> None:
        await super().abandon()
        process = self._process
        if process is None:
            return
        transport: Any = process._transport  # type: ignore[attr-defined]  # Process has no way to close a pipe with unread output
        for fd in (0, 1, 2):
            transport.get_pipe_transport(fd).close()  # else `wait` waits for the pipes as well
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), self.stage.grace_ms / 1000)
            except TimeoutError:
                process.kill()
                await process.wait()

    def failed(self, error: BaseException) -> BaseException:
        if isinstance(error, OSError) and self._process is None:
            return ProcessFailed(
                f"process {' '.join(self.stage.command)!r} cannot be started: {error.strerror or error}", None
            )
        return error
