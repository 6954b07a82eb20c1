"""What a consumer's poll takes: records, errors and callbacks, in the order in which they came.

Owner: the consumer. Records of a partition behind a newer barrier are dropped here, one chunk at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from streamactors.simulation.client.reading.reading import Reading


class Chunk:
    """Records of one fetch. `at` is the index of the next one."""

    __slots__ = ("at", "messages", "reading", "version")

    def __init__(self, reading: Reading, messages: list[Any]) -> None:
        self.reading = reading
        self.version = reading.version
        self.messages = messages
        self.at = 0


class Notice(NamedTuple):
    """A message with an error: the end of a partition, or what went wrong. `reading` None: it is of the client."""

    message: Any
    reading: Reading | None = None
    version: int = 0


class Callback(NamedTuple):
    """A callback that runs inside the poll."""

    run: Callable[[], None]


class Ready:
    """The queue of one consumer."""

    def __init__(self, drained: Callable[[Reading], None]) -> None:
        """`drained` is called when fewer records of a partition wait than before."""
        self._items: deque[Chunk | Notice | Callback] = deque()
        self._drained = drained

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, item: Chunk | Notice | Callback) -> None:
        """Add an item."""
        self._items.append(item)

    def clear(self) -> None:
        """Drop everything."""
        self._items.clear()

    def take(self, limit: int) -> list[Any]:
        """Return up to `limit` messages that are ready, and run the callbacks on the way. A callback that raises ends the call."""
        taken: list[Any] = []
        items = self._items
        while items and len(taken) < limit:
            item = items[0]
            if isinstance(item, Chunk):
                self._take(item, limit - len(taken), taken)
                continue
            items.popleft()
            if isinstance(item, Callback):
                item.run()
            elif item.reading is None or item.reading.version == item.version:
                taken.append(item.message)
        return taken

    def _take(self, chunk: Chunk, limit: int, taken: list[Any]) -> None:
        reading, at = chunk.reading, chunk.at
        if chunk.version != reading.version:
            self._items.popleft()
            return
        part = chunk.messages[at : at + limit] if at or limit < len(chunk.messages) else chunk.messages
        chunk.at = at + len(part)
        if chunk.at >= len(chunk.messages):
            self._items.popleft()
        if part:
            taken += part
            reading.position = reading.restart = part[-1].offset() + 1
            reading.queued -= len(part)
            self._drained(reading)
