"""from_async_iterable: an async generator or another object with `__aiter__`, read on an asyncio loop as demand comes."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import deque
from collections.abc import AsyncIterable
from typing import Any

from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.island.coroutines import loop_of
from streamactors.engine.logic import SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import AbruptTermination, BuildError
from streamactors.gauges import Gauge
from streamactors.stages.asynchronous.own_loop import OwnLoop
from streamactors.stages.checks import asyncio_loop


class FromAsyncIterable(GraphStage):
    """The stage of `Source.from_async_iterable`."""

    shape = SOURCE
    name = "from_async_iterable"

    def __init__(self, elements: AsyncIterable[Any], loop: asyncio.AbstractEventLoop | None = None) -> None:
        if not hasattr(elements, "__aiter__"):
            hint = "; call the function" if callable(elements) else ""
            raise BuildError(
                f"from_async_iterable expects an async iterable, got {type(elements).__name__} "
                f"{shortened(elements, 60)}{hint}"
            )
        self.elements = elements
        self.loop = asyncio_loop("from_async_iterable", loop)


@logic_of(FromAsyncIterable)
class _AsyncIterableLogic(SourceLogic):
    _iterator: Any = None  # until `__aiter__` has returned one

    def __init__(self, stage: FromAsyncIterable) -> None:
        super().__init__(stage)
        self._reading: concurrent.futures.Future[Any] | None = None
        self._arrived: deque[Any] = deque()  # filled on the loop, emptied on the island
        self._announced = False
        self._gauge = Gauge("from_async_iterable: elements that wait for the stream", MAX_ASKED)

    def bind(self) -> None:
        """Called when the connections are known."""
        self._own_loop = None if self.stage.loop is None else OwnLoop(self, self.stage.loop)

    def on_start(self) -> None:
        if self._own_loop is not None:
            self._own_loop.start()
        self._iterator = self.stage.elements.__aiter__()
        self._tell = self.async_callback(self._take).invoke

    def on_pull(self, out: Connection) -> None:
        if self._reading is None:
            self._reading = self._start(self._read(out.asked))
            self._reading.add_done_callback(lambda _: self._announce())

    def on_timer(self, key: object) -> None:
        assert self._own_loop is not None
        self._own_loop.look(self._reading is not None)

    def _start(self, coroutine: Any) -> concurrent.futures.Future[Any]:
        if self._own_loop is not None:
            try:
                return asyncio.run_coroutine_threadsafe(coroutine, self._own_loop.loop)
            except RuntimeError:
                coroutine.close()
                raise self._own_loop.closed() from None
        return loop_of(self.interpreter.island.run.system).start(coroutine)

    async def _read(self, n: int) -> bool:
        """Read up to n elements; return whether the iterable has ended."""
        for _ in range(n):
            try:
                element = await self._iterator.__anext__()
            except StopAsyncIteration:
                return True
            self._arrived.append(element)
            self._announce()
        return False

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            self._tell(None)

    def _take(self, _: None) -> None:
        self._announced = False  # before the look, so that an element that comes now wakes the island again
        reading = self._reading
        over = reading is not None and reading.done()
        arrived = self._arrived
        chunk = [arrived.popleft() for _ in range(len(arrived))]
        if chunk:
            self._gauge.reached(len(chunk))
            self.out.push(chunk)
        if not over:
            return
        assert reading is not None
        self._reading = None
        error = reading.exception() if not reading.cancelled() else concurrent.futures.CancelledError()
        if error is not None:
            self.fail_stage(blame(error, self.name))
        elif reading.result():
            self.complete_stage()
        elif self.out.asked:
            self.out.again()

    def on_stop(self) -> None:
        if self._own_loop is not None:
            self._own_loop.end()
        if self._reading is not None:
            self._reading.cancel()
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            try:
                self._start(_close_after(self._reading, close))
            except (RuntimeError, AbruptTermination):
                pass  # the loop has ended, and the iterator with it


async def _close_after(reading: concurrent.futures.Future[Any] | None, close: Any) -> None:
    if reading is not None:
        await asyncio.wait([asyncio.wrap_future(reading)])
    await close()
