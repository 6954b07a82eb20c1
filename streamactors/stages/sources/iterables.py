"""Sources over iterables: from_iterable, range. They are fused with the maps and filters after them (engine/fusing)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, Final

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.source import FeedLogic
from streamactors.engine.logic import Logic
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError

_log = logging.getLogger("streamactors.stages")


class SequenceFeed:
    """Slices of a sequence: list, tuple, range."""

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


class BackedFeed:
    """Slices of the elements that `read` appends. Elements given back come again; elements read before an error come before it."""

    position = 0

    def __init__(self) -> None:
        self._back: list[Any] = []
        self._last: list[Any] = []
        self._over = False
        self._error: BaseException | None = None

    def read(self, n: int, chunk: list[Any], stop: list[int]) -> bool:
        """Append up to n elements to `chunk`, none once `stop` is filled; return True when there are no more."""
        raise NotImplementedError  # pragma: no cover

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """See Feed."""
        chunk: list[Any] = []
        if self._back:
            chunk, self._back = self._back[:n], self._back[n:]
        elif self._error is not None:
            raise self._error
        else:
            try:
                self._over = self.read(n, chunk, stop)
            except BaseException as error:  # the user's iterator or function
                if not chunk:
                    raise
                self._error = error
        self._last = chunk
        self.position += len(chunk)
        return iter(chunk)

    def unread(self, n: int) -> None:
        """See Feed."""
        self._back = self._last[len(self._last) - n :] + self._back
        self.position -= n

    @property
    def exhausted(self) -> bool:
        """See Feed."""
        return self._over and not self._back and self._error is None


class IteratorFeed(BackedFeed):
    """Slices of any iterator. A slow iterator is read in short slices.

    When the iterable has a length (a set, a dict, an array) the end is known with the last element; otherwise it is found by a further
    read."""

    def __init__(self, elements: Iterable[Any], start: int) -> None:
        super().__init__()
        self._iterator: Iterator[Any] = iter(elements)
        self._length = len(elements) if isinstance(elements, Sized) else None
        if start:
            counted = deque(enumerate(islice(self._iterator, start), 1), maxlen=1)
            self.position = counted[0][0] if counted else 0
        self._over = self._length == 0 or self.position < start  # shorter than the start position

    def read(self, n: int, chunk: list[Any], stop: list[int]) -> bool:
        for element in islice(self._iterator, n):
            chunk.append(element)
            if stop:
                return False
        return len(chunk) < n or self.position + len(chunk) == self._length

    def close(self) -> None:
        """Close a generator, so that its `finally` runs when the stream ends early."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


_REPLAYABLE: Final = StageTraits(emits_marks=True)


class FromIterable(GraphStage):
    """The stage of `Source.from_iterable`."""

    shape = SOURCE
    name = "from_iterable"
    identity: Mapping[str, str] = {}
    """What tells the elements from others, where they have a name: a file's path, a range's start."""

    def __init__(self, elements: Iterable[Any]) -> None:
        if not hasattr(elements, "__iter__") and not hasattr(elements, "__getitem__"):
            way_out = (
                "call it; for a call in each run: Source.lazy_source(lambda: Source.from_iterable(fn()))"
                if callable(elements)
                else "Source.single(x) emits one element, Source.from_async_iterable takes an async iterable"
            )
            raise BuildError(f"from_iterable expects an iterable, got {type(elements).__name__}; {way_out}")
        if hasattr(elements, "columns") and type(elements).__name__ == "DataFrame":
            raise BuildError(
                "from_iterable expects rows, got a DataFrame, whose iteration gives the names of its columns; use "
                "df.itertuples(index=False) of pandas, df.iter_rows(named=True) of polars, or SparkSource.of(df)"
            )
        if self.name == "from_iterable" and (
            isinstance(elements, (bytes, dict)) or (isinstance(elements, str) and not elements.isalnum())
        ):
            _log.warning("from_iterable: a %s is iterated: its elements are %s; %s", *_surprise(elements))
        self._elements = elements
        self._read = False  # an iterator has been given to a run
        if self.can_be_read_again(elements):
            self.traits = _REPLAYABLE

    @staticmethod
    def can_be_read_again(elements: Iterable[Any]) -> bool:
        """True when the iterable can be iterated again, so that a position has a meaning."""
        return iter(elements) is not elements if not isinstance(elements, Iterator) else False

    def feed(self, attributes: Attributes) -> Any:
        """Return a fresh feed, started at the replay position if there is one."""
        start = attributes.replay.start if attributes.replay is not None else 0
        elements = self._elements
        if isinstance(elements, (list, tuple, range)):
            return SequenceFeed(elements, min(start, len(elements)))
        if isinstance(elements, Iterator):
            if self._read:
                _log.warning(
                    "%s: an earlier run has read this %s, so this run gets what is left of it, usually nothing; give something that can be "
                    "iterated again, or Source.lazy_source(lambda: Source.from_iterable(make()))",
                    self.label,
                    type(elements).__name__,
                )
            self._read = True
        return IteratorFeed(elements, start)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes, identity=self.identity), NOT_USED


def _surprise(elements: str | bytes | dict[Any, Any]) -> tuple[str, str, str]:
    """Return, for a warning, the name of the type, what its elements are, and the source that the user may have meant."""
    if isinstance(elements, dict):
        return "dict", "its keys", "Source.from_iterable(d.items()) gives pairs, Source.single(d) the dict"
    if isinstance(elements, bytes):
        return "bytes", "integers", "Source.single(data) gives the bytes, Source.from_file(path) those of a file"
    return "str", "its characters", "Source.single(text) gives the text, Source.from_lines(path) the lines of a file"


class Range(FromIterable):
    """The stage of `Source.range`."""

    name = "range"

    def __init__(self, start: int, stop: int | None = None, step: int = 1) -> None:
        try:
            elements = range(start) if stop is None else range(start, stop, step)
        except (TypeError, ValueError) as error:
            raise BuildError(f"range({start!r}, {stop!r}, {step!r}): {error}") from None
        super().__init__(elements)
        self.identity = {"start and step": f"{elements.start} and {elements.step}"}
