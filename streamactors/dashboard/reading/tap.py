"""A tap: elements of a running stage as texts, sampled and shortened. Nobody pays while nobody taps.

A tap replaces the queue of a connection, on its island, by one that remembers the last chunk; at the end the queue is replaced back. While a tap is
open a chunk costs one more call. Owner: the server, one tap for each page that asks; the taps of a stage share the queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from streamactors.dashboard.reading.graphs import short
from streamactors.dashboard.redacting import Redact, redacted
from streamactors.engine.island.tapped import TappedQueue

MOST_A_LOOK: Final = 5
"""Elements that are shown of one look."""


class Tap:
    """Shows what a stage pushes; of a sink, what reaches it. `redact(element)` returns what is shown instead of an element."""

    def __init__(self, logic: Any, redact: Redact | None = None) -> None:
        ports = [*logic.outlets] or [*logic.inlets]
        self._connections = ports
        self._logic = logic
        self._redact = redact
        self._open = True
        self._tapped: list[Any] = []  # connections whose queue counts this tap
        self._shown: dict[int, list[Any]] = {}  # by connection: the chunk of the last look
        self._post(self._begin)

    @property
    def over(self) -> bool:
        """True when the stage has ended."""
        return bool(self._logic.stopped)

    def look(self) -> list[str]:
        """Return texts of the last elements since the look before; nothing if none have passed. Any thread."""
        texts: list[str] = []
        for number, c in enumerate(self._connections):
            chunk = getattr(c.items, "last", None)
            if chunk and chunk is not self._shown.get(number):
                self._shown[number] = chunk
                texts += [self._text(element) for element in chunk[-MOST_A_LOOK:]]
        return texts

    def close(self) -> None:
        """End the tap. Idempotent."""
        if self._open:
            self._open = False
            self._post(self._end)

    def _post(self, what: Callable[[Any], None]) -> None:
        if not self._logic.stopped:
            self._logic.interpreter.post(self._logic, what, None)

    def _begin(self, _: Any) -> None:
        for c in self._connections if self._open else ():
            if type(c.items) is deque:
                c.items = TappedQueue(c.items)
            if isinstance(c.items, TappedQueue):
                c.items.taps += 1
                self._tapped.append(c)

    def _end(self, _: Any) -> None:
        for c in self._tapped:
            c.items.taps -= 1
            if not c.items.taps:
                c.items = deque(c.items)

    def _text(self, element: Any) -> str:
        return redacted(element, self._redact, lambda shown: short(repr(shown)))
