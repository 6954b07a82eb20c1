"""A running source as a Python iterator: `for x in source.run_iter()`, `async for x in source.run_async_iter()`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic

from streamactors.dsl.typevars import T
from streamactors.stages.bases.pull import END, ChunkReader


def iterate(start: Callable[[], ChunkReader[T]]) -> Iterator[T]:
    """Yield the elements of the run that `start` begins; leaving the generator cancels it."""
    reader = start()
    try:
        while True:
            chunk = reader.take()
            if chunk is None:
                reader.wait()
            elif chunk is END:
                return
            else:
                yield from chunk
    finally:
        reader.cancel()


class AsyncElements(AsyncIterator[T], Generic[T]):
    """The elements of a run, for one coroutine. Leaving the loop, or `aclose`, cancels the run."""

    def __init__(self, start: Callable[[], ChunkReader[T]]) -> None:
        self._start = start
        self._reader: ChunkReader[T] | None = None
        self._elements: Iterator[T] = iter(())

    def __aiter__(self) -> AsyncElements[T]:
        return self

    async def __anext__(self) -> T:
        for element in self._elements:
            return element
        if self._reader is None:
            self._reader = self._start()
        while True:
            chunk = self._reader.take()
            if chunk is None:
                await self._arrival(self._reader)
            elif chunk is END:
                raise StopAsyncIteration
            else:
                self._elements = iter(chunk)
                await asyncio.sleep(0)  # a stream that is always ahead must not starve the loop
                return next(self._elements)

    @staticmethod
    async def _arrival(reader: ChunkReader[T]) -> None:
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def tell() -> None:
            if not arrived.done():
                arrived.set_result(None)

        def tell_from_any_thread() -> None:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:
                pass  # the loop has ended, and with it the coroutine that waits

        reader.when_ready(tell_from_any_thread)
        await arrived

    async def aclose(self) -> None:
        """Cancel the run; the iterator is at its end."""
        self._close()

    async def __aenter__(self) -> AsyncElements[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self._elements = iter(())
        if self._reader is not None:
            self._reader.cancel()
        else:
            self._start = _ended

    def __del__(self) -> None:
        if self._reader is not None and not self._reader.over:
            self._reader.cancel()


def _ended() -> ChunkReader[T]:
    raise StopAsyncIteration
