"""The newest state for every open page: encoded once, whatever the number of pages.

Owner: the server's loop. A page that reads slowly gets the newest state when it has taken the last one; what came between is lost for it, and
it can ask `/api/history` for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from streamactors.dashboard.sampling import Frame

BEGIN: Final = b"retry: 2000\n\n"


def event(name: str, data: bytes, id_: str = "") -> bytes:
    """Return a server-sent event. `data` is JSON of one line."""
    head = f"id: {id_}\nevent: {name}\n" if id_ else f"event: {name}\n"
    return b"".join((head.encode(), b"data: ", data, b"\n\n"))


class Feed:
    """`watched(bool)` is called when the first page opens and when the last one has closed."""

    def __init__(self, watched: Callable[[bool], object]) -> None:
        self.pages = 0
        self._watched = watched
        self._at_ms = 0
        self._event = b""
        self._changed = asyncio.Event()

    def publish(self, frame: Frame) -> None:
        """A new state is there. The loop's thread."""
        at_ms, state = frame
        self._at_ms = at_ms
        self._event = event("state", state, str(at_ms)) if self.pages else b""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, first: Frame) -> AsyncIterator[bytes]:
        """Yield the events of a page, beginning with `first`."""
        self.pages += 1
        if self.pages == 1:
            self._watched(True)
        try:
            yield BEGIN
            sent = first[0]
            yield event("state", first[1], str(sent))
            while True:
                while self._at_ms == sent or not self._event:
                    await self._changed.wait()
                sent = self._at_ms
                yield self._event
        finally:
            self.pages -= 1
            if not self.pages:
                self._watched(False)
