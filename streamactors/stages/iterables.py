"""Sources over iterables: from_iterable, range. They are fused with the maps and filters behind them (engine/fusing.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing import FeedLogic
from streamactors.engine.logic import Logic
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.errors import BuildError


class SequenceFeed:
    """Slices of something that has a length and can be sliced: list, tuple, range, numpy array."""

    __slots__ = ("_elements", "_length", "position")

    def __init__(self, elements: Sequence[Any], start: int) -> None:
        self._elements = elements
        self._length = len(elements)
        self.position = start

    def take(self, n: int, stop: list[int]) -> Any:
        position = self.position
        self.position = end = min(position + n, self._length)
        return iter(self._elements[position:end])

    def unread(self, n: int) -> None:
        self.position -= n

    @property
    def exhausted(self) -> bool:
        return self.position >= self._length


class IteratorFeed:
    """Slices of any iterator. A slow iterator is read in short slices; what it gave before raising goes out first.

    Where the iterable has a length (a set, a dict, an array) the end is known with the last element; otherwise it is found by asking
    for one more."""

    __slots__ = ("_back", "_error", "_iterator", "_last", "_length", "_over", "position")

    def __init__(self, elements: Iterable[Any], start: int) -> None:
        self._iterator: Iterator[Any] = iter(elements)
        self.position = start
        self._back: list[Any] = []
        self._error: BaseException | None = None
        self._length = len(elements) if isinstance(elements, Sized) else None
        self._over = self._length == 0
        if start and next(islice(self._iterator, start - 1, start), self) is self:
            self._over = True  # shorter than the position to start at

    def take(self, n: int, stop: list[int]) -> Any:
        if self._back:
            chunk = self._back[:n]
            self._back = self._back[n:]
        elif self._error is not None:
            raise self._error
        else:
            chunk = self._read(n, stop)
        self._last = chunk
        self.position += len(chunk)
        return iter(chunk)

    def _read(self, n: int, stop: list[int]) -> list[Any]:
        chunk: list[Any] = []
        try:
            for element in islice(self._iterator, n):
                chunk.append(element)  # it must be able to stop
                if stop:
                    return chunk
        except BaseException as error:  # the user's iterator
            if not chunk:
                raise
            self._error = error
            return chunk
        self._over = len(chunk) < n or self.position + len(chunk) == self._length
        return chunk

    def unread(self, n: int) -> None:
        self._back = self._last[len(self._last) - n :] + self._back
        self.position -= n

    @property
    def exhausted(self) -> bool:
        return self._over and not self._back and self._error is None

    def close(self) -> None:
        """Close a generator, so that its `finally` runs when the stream ends early."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


class FromIterable(GraphStage):
    """Emit the elements of an iterable, which is asked for a new iterator by each run.

    Emits when: there is demand and the iterable has an element.
    Completes when: the iterable ends.            Fails when: the iterable raises.
    """

    shape = SOURCE
    name = "from_iterable"

    def __init__(self, elements: Iterable[Any]) -> None:
        if not hasattr(elements, "__iter__") and not hasattr(elements, "__getitem__"):
            way_out = (
                "call it; to have it called anew by each run: Source.lazy_source(lambda: Source.from_iterable(fn()))"
                if callable(elements)
                else "Source.single(x) emits one element, Source.from_async_iterable takes an async iterable"
            )
            raise BuildError(f"from_iterable expects an iterable, got {type(elements).__name__}; {way_out}")
        self._elements = elements
        self.emits_marks = self.reads_marks_of(elements)

    @staticmethod
    def reads_marks_of(elements: Iterable[Any]) -> bool:
        """True when the iterable can be iterated again, so that a position means something."""
        return iter(elements) is not elements if not isinstance(elements, Iterator) else False

    def feed(self, attributes: Attributes) -> Any:
        """Return a fresh feed, started at the replay position if there is one."""
        start = attributes.replay.start if attributes.replay is not None else 0
        elements = self._elements
        if isinstance(elements, (list, tuple, range)):
            return SequenceFeed(elements, min(start, len(elements)))
        return IteratorFeed(elements, start)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes), NOT_USED


class Range(FromIterable):
    """Emit the integers of a range.

    Emits when: there is demand.                  Completes when: the range ends.
    """

    name = "range"

    def __init__(self, start: int, stop: int | None = None, step: int = 1) -> None:
        try:
            elements = range(start) if stop is None else range(start, stop, step)
        except (TypeError, ValueError) as error:
            raise BuildError(f"range({start!r}, {stop!r}, {step!r}): {error}") from None
        super().__init__(elements)
