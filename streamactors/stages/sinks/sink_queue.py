"""to_queue: a sink that is read by pulling, element by element, from any thread or coroutine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.errors import NoSuchElement
from streamactors.stages.bases.pull import END, ChunkReader
from streamactors.stages.sinks.pull import PullSink

T = TypeVar("T")
_RAISE: Final[Any] = object()


class ToQueue(PullSink):
    """The stage of `Sink.to_queue`."""

    def __init__(self, buffer: int | None) -> None:
        super().__init__("to_queue", buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic, reader = super().create(attributes)
        return logic, SinkQueue(reader)


class SinkQueue(Generic[T]):
    """Materialized by `Sink.to_queue()`."""

    def __init__(self, reader: ChunkReader[T]) -> None:
        self._reader = reader
        self._lock = threading.RLock()
        self._elements: Iterator[T] = iter(())
        self._pulls: deque[tuple[StreamFuture[Any], Any]] = deque()
        self._listening = False

    def pull(self, default: Any = _RAISE) -> StreamFuture[T]:
        """Return the future of the next element; pulls are answered in order. Any thread.

        After the end of the stream the future has the value `default`, or fails with NoSuchElement if none is given. When the stream
        fails, the future fails with its error."""
        future: StreamFuture[T] = StreamFuture("a pull from a sink's queue")
        with self._lock:
            self._pulls.append((future, default))
            if not self._listening:
                self._serve()
        return future

    def cancel(self) -> None:
        """Cancel the stream; open pulls see its end."""
        with self._lock:
            self._elements = iter(())
            self._reader.cancel()
            self._serve()

    def _ready(self) -> None:
        with self._lock:
            self._listening = False
            self._serve()

    def _serve(self) -> None:
        while self._pulls:
            try:
                element = next(self._elements, _RAISE)
                if element is _RAISE:
                    chunk = self._reader.take()
                    if chunk is None:
                        self._listening = True
                        self._reader.when_ready(self._ready)
                        return
                    if chunk is not END:
                        self._elements = iter(chunk)
                        continue
            except BaseException as error:  # noqa: BLE001  # the stream has failed
                self._pulls.popleft()[0].set_exception(error)
                continue
            future, default = self._pulls.popleft()
            if element is not _RAISE:
                future.set_result(element)
            elif default is not _RAISE:
                future.set_result(default)
            else:
                future.set_exception(NoSuchElement("the stream has ended; pull(default) gives a default instead"))
