"""Sources that are iterables in disguise: single, empty, repeat, cycle, the lines of a file.

Each is something that can be iterated again, handed to FromIterable, so it is fused with what follows; all but repeat and cycle
can be replayed by element index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.iterables import FromIterable


class Single(FromIterable):
    """Emit one element and complete.

    Emits when: there is demand.                  Completes when: it has emitted.
    """

    name = "single"

    def __init__(self, element: Any) -> None:
        super().__init__((element,))


class Empty(FromIterable):
    """Complete at once.

    Emits when: never.                            Completes when: it starts.
    """

    name = "empty"

    def __init__(self) -> None:
        super().__init__(())


class Repeat(FromIterable):
    """Emit the same element for ever.

    Emits when: there is demand.                  Completes when: never.
    """

    name = "repeat"

    def __init__(self, element: Any) -> None:
        super().__init__(())
        self._element = element
        self.emits_marks = False

    def feed(self, attributes: Attributes) -> Any:
        """Return a fresh feed."""
        return _RepeatFeed(self._element)


class _RepeatFeed:
    exhausted = False
    position = 0

    def __init__(self, element: Any) -> None:
        self._element = element

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """Return the element n times."""
        return iter([self._element] * n)

    def unread(self, n: int) -> None:
        """There is more of it anyway."""


class Cycle(FromIterable):
    """Emit an iterable's elements over and over again.

    Emits when: there is demand.                  Completes when: never.
    Fails when: the iterable has no element.
    """

    name = "cycle"

    def __init__(self, elements: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if isinstance(elements, Iterator):
            raise BuildError(
                f"cycle expects an iterable that can be iterated again, or a function that makes one, got the iterator "
                f"{shortened(elements, 60)}"
            )
        if not callable(elements) and not hasattr(elements, "__iter__") and not hasattr(elements, "__getitem__"):
            raise BuildError(f"cycle expects an iterable, got {type(elements).__name__} {shortened(elements, 60)}")
        super().__init__(_Cycling(elements))
        self.emits_marks = False


class _Cycling:
    def __init__(self, elements: Any) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[Any]:
        elements = self._elements
        while True:
            got_any = False
            for element in elements() if callable(elements) else elements:
                got_any = True
                yield element
            if not got_any:
                raise ValueError("cycle over an empty iterable has nothing to emit")


class Lines(FromIterable):
    """Emit the lines of a text file, without their line ends. Positions are line numbers from 0.

    Emits when: there is demand and a line was read.   Completes when: the file ends.
    Fails when: the file cannot be read or decoded.
    """

    name = "from_lines"

    def __init__(self, path: str | os.PathLike[str], encoding: str = "utf-8") -> None:
        if not isinstance(path, str | os.PathLike):
            raise BuildError(f"from_lines expects a path, got {type(path).__name__} {shortened(path, 60)}")
        try:
            "".encode(encoding)
        except (LookupError, TypeError) as error:
            raise BuildError(f"from_lines: {error}") from None
        super().__init__(_FileLines(path, encoding))


class _FileLines:
    def __init__(self, path: str | os.PathLike[str], encoding: str) -> None:
        self._path = path
        self._encoding = encoding

    def __iter__(self) -> Iterator[str]:
        with open(self._path, encoding=self._encoding) as lines:
            for line in lines:
                yield line.removesuffix("\n")
