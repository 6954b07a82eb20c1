"""DuplexLogic: a stage between two byte streams of asyncio, one that it writes and one that it reads.

At most one read and one write are under way. A read begins when there is demand, so an unread peer fills the kernel's buffers and waits; the
next element is taken when `drain` has returned, so a slow peer holds up the stream."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final

from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.coroutines import SystemLoop, loop_of, run_coroutine
from streamactors.engine.logic import FlowLogic
from streamactors.engine.user_code import blame
from streamactors.errors import AbruptTermination
from streamactors.stages.bases.cutting import named

BLOCK_BYTES: Final = 256 * 1024
"""The longest element that is read, and the bytes that asyncio keeps of each direction."""

_MOST_AT_ONCE: Final = 64
_NO_LINGER: Final = struct.pack("ii", 1, 0)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the peer sees a failure, and does not take what it has received for the whole."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


class DuplexLogic(FlowLogic):
    """`keep_going` holds the stage until both directions have ended and the last write is done.

    Subclasses override `connect` and `disconnect`, which run on the asyncio loop, and `failed`."""

    keep_going = True
    half_close = True
    """True: when upstream has ended, reading continues until the peer has ended. False: the stage ends with upstream."""
    one_end = False
    """True: when the peer has ended or downstream has cancelled, upstream is cancelled. False: what upstream still has is written."""

    _loop: SystemLoop

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._connected = False
        self._reading = False
        self._writing = False
        self._input_over = False  # nothing more is written
        self._output_over = False  # nothing more is read
        self._dropping = False  # downstream has cancelled: what is read is dropped
        self._over = False  # both directions have ended
        self._failing = False

    # ── for subclasses; on the asyncio loop ───────────────────────────────────────────────────────────────────────

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the two streams."""
        raise NotImplementedError  # pragma: no cover

    async def disconnect(self) -> None:
        """Both directions have ended well: wait for what must follow. An error fails the stage."""

    async def abandon(self) -> None:
        """The stage has ended, well or not: release everything. Errors are dropped."""
        if self._writer is not None:
            self._writer.close()

    # ── for subclasses; on the island ─────────────────────────────────────────────────────────────────────────────

    def connected(self) -> None:
        """The streams are there."""

    def failed(self, error: BaseException) -> BaseException:
        """Return the error to fail the stage with."""
        return error

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self._loop = loop_of(self.interpreter.island.run.system)
        self._await(self._connect(), self._now_connected)

    async def _connect(self) -> None:
        self._reader, self._writer = await self.connect()
        self._loop.closings[self._break_off] = None
        if self.stopped:  # the stage ended while this was under way, perhaps before there was anything to release
            await self._release()

    def _now_connected(self, _: Any) -> None:
        self._connected = True
        self.connected()
        if self._input_over:
            self._end_writing()
        else:
            self.in_.want(_MOST_AT_ONCE)
        if self.out.asked:
            self._read()

    def on_pull(self, out: Connection) -> None:
        self._read()

    def _read(self) -> None:
        if self._connected and not self._reading and not self._output_over:
            self._reading = True
            assert self._reader is not None
            self._await(self._reader.read(BLOCK_BYTES), self._read_some)

    def _read_some(self, data: bytes) -> None:
        self._reading = False
        if self._output_over:
            return
        if data:
            if not self._dropping:
                self.out.push([data])
            if self._dropping or self.out.asked:
                self._read()
            return
        self._output_over = True
        if self._dropping or self.one_end:
            self._end_input()
        self._settle()

    def _end_input(self) -> None:
        self._input_over = True
        self.in_.cancel()

    def on_push(self, in_: Connection) -> None:
        if self._writing or not self._connected:
            return
        chunk = in_.grab(_MOST_AT_ONCE)
        if not chunk:
            return
        try:
            data = b"".join(chunk)
        except TypeError as error:
            raise named(error, self.name, chunk) from None
        self._writing = True
        self._await(self._write(data), self._written)

    async def _write(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)
        await self._writer.drain()

    def _written(self, _: Any) -> None:
        self._writing = False
        if self._input_over:
            self._end_writing()
        else:
            self.in_.want(_MOST_AT_ONCE)

    def on_complete(self, in_: Connection) -> None:
        self._input_over = True
        if self._connected and not self._writing:
            self._end_writing()

    def _end_writing(self) -> None:
        if self._dropping or not self.half_close:
            self._output_over = True
        if not self._output_over:
            self._await(self._end_of_file(), lambda _: None)
        self._settle()

    async def _end_of_file(self) -> None:
        assert self._writer is not None
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._fail(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._fail(cause)
        elif self._over:
            self.complete_stage()  # nobody wants what `disconnect` still waits for
        elif self._input_over or self.one_end or not self._connected:
            self._output_over = True
            self._end_input()
            self._settle()
        else:
            self._dropping = True
            self._read()

    def _settle(self) -> None:
        """End the stage when both directions are over."""
        if self._input_over and self._output_over and not self._writing and not self._over:
            self._over = True
            if self._connected:
                self._await(self.disconnect(), lambda _: self.complete_stage())
            else:
                self.complete_stage()
        elif self._output_over and not self._input_over and not self.out.out_closed:
            self.out.complete()  # the peer has ended, and may still be written to

    def _fail(self, error: BaseException) -> None:
        self._failing = True
        self.fail_stage(blame(self.failed(error), self.name))

    # ── asyncio ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _await(self, coroutine: Coroutine[Any, Any, Any], then: Callable[[Any], None]) -> None:
        """Run a coroutine on the asyncio loop, then `then(result)` on the island; an error fails the stage."""

        def ended(outcome: tuple[Any, BaseException | None]) -> None:
            result, error = outcome
            if error is None:
                then(result)
            elif not self._failing:
                self._fail(error)

        tell = self.async_callback(ended).invoke

        def outside(future: Any) -> None:
            error = AbruptTermination("the asyncio loop has ended") if future.cancelled() else future.exception()
            tell((None, error) if error is not None else (future.result(), None))

        run_coroutine(self.interpreter.island.run.system, coroutine).add_done_callback(outside)

    def on_stop(self) -> None:
        try:
            run_coroutine(self.interpreter.island.run.system, self._release())
        except AbruptTermination:
            pass  # the loop has ended, and has broken off what it had

    async def _break_off(self) -> None:
        """The loop ends while the stage runs, which hears of it too late to release anything, or before `_release` has begun for a stage that
        has ended."""
        await self._release(broken=not self.stopped)

    async def _release(self, *, broken: bool = False) -> None:
        self._loop.closings.pop(self._break_off, None)
        try:
            if (broken or self.failure is not None) and self._writer is not None:
                reset(self._writer)
            await self.abandon()
        except Exception:  # noqa: BLE001, S110  # the stage has ended, and its streams are of no use
            pass

    def snapshot_state(self) -> str:
        if not self._connected:
            return "connecting"
        return ", ".join(what for what, on in (("reading", self._reading), ("writing", self._writing)) if on)
