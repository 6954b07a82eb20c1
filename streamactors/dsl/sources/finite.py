"""Constructors of Source for elements that exist already: iterables, ranges, files, single elements."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.engine.stage import NotUsed

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source


class FiniteSources(Constructors):
    """Constructors of sources of known elements."""

    __slots__ = ()

    @classmethod
    def from_iterable(cls, elements: Iterable[T]) -> Source[T, NotUsed]:
        """Emit the elements of an iterable: a list, a generator, a dict's keys, a numpy array.

        Each run makes a new iterator, so a generator object serves one run only. An iterable that can be iterated again
        can be replayed (`with_replay`).
        Emits when: there is demand and the iterable has an element.
        Completes when: the iterable ends.            Fails when: the iterable raises.

        Example:
            Source.from_iterable('abc')
        """
        from streamactors.stages.sources.iterables import FromIterable

        return cls._of(FromIterable(elements))

    @classmethod
    def range(cls, start: int, stop: int | None = None, step: int = 1) -> Source[int, NotUsed]:
        """Emit the integers of the builtin `range` with the same arguments.

        Emits when: there is demand.                  Completes when: the range ends.

        Example:
            Source.range(3)
        """
        from streamactors.stages.sources.iterables import Range

        return cls._of(Range(start, stop, step))

    @classmethod
    def from_async_iterable(
        cls, elements: AsyncIterable[T], loop: asyncio.AbstractEventLoop | None = None
    ) -> Source[T, NotUsed]:
        """Emit the elements of an async generator or another async iterable.

        The iterable runs on the asyncio loop of the actor system; pass `loop` for objects that belong to another loop.
        Emits when: there was demand and an element has come.
        Completes when: the iterable ends.            Fails when: the iterable raises.
        Cancels when: downstream does; the iterator is closed (`aclose`).

        Example:
            async def numbers():
                for n in (1, 2, 3):
                    yield await wait(n)

            Source.from_async_iterable(numbers())
        """
        from streamactors.stages.sources.async_iterable import FromAsyncIterable

        return cls._of(FromAsyncIterable(elements, loop))

    @classmethod
    def from_lines(cls, path: str | os.PathLike[str], encoding: str = "utf-8") -> Source[str, NotUsed]:
        r"""Emit the lines of a text file, without their line ends. Can be replayed by line number (`with_replay`).

        Emits when: there is demand and a line was read.   Completes when: the file ends.
        Fails when: the file cannot be read or decoded.

        Example:
            path.write_text('x\ny\n')
            Source.from_lines(path)
        """
        from streamactors.stages.files.lines import Lines

        return cls._of(Lines(path, encoding))

    @classmethod
    def single(cls, element: T) -> Source[T, NotUsed]:
        """Emit one element.

        Emits when: there is demand.                  Completes when: it has emitted.

        Example:
            Source.single(7)
        """
        from streamactors.stages.sources.simple import Single

        return cls._of(Single(element))

    @classmethod
    def empty(cls) -> Source[Any, NotUsed]:
        """Complete at once.

        Emits when: never.                            Completes when: it starts.

        Example:
            Source.empty()
        """
        from streamactors.stages.sources.simple import Empty

        return cls._of(Empty())

    @classmethod
    def failed(cls, error: BaseException) -> Source[Any, NotUsed]:
        """Fail at once with `error`.

        Emits when: never.                            Fails when: it starts.

        Example:
            Source.failed(ValueError('why'))
        """
        from streamactors.stages.sources.simple import Failed

        return cls._of(Failed(error))

    @classmethod
    def never(cls) -> Source[Any, NotUsed]:
        """Neither emit nor end.

        Emits when: never.                            Completes when: never.

        Example:
            a -1-2|
            a.concat(Source.never())
        """
        from streamactors.stages.sources.simple import Never

        return cls._of(Never())

    @classmethod
    def repeat(cls, element: T) -> Source[T, NotUsed]:
        """Emit the same element without end.

        Emits when: there is demand.                  Completes when: never.

        Example:
            Source.repeat('x').take(3)
        """
        from streamactors.stages.sources.simple import Repeat

        return cls._of(Repeat(element))

    @classmethod
    def cycle(cls, elements: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, NotUsed]:
        """Emit an iterable's elements again and again; a function is called for a new iterable each time.

        Emits when: there is demand.                  Completes when: never.
        Fails when: the iterable is empty, or raises.

        Example:
            Source.cycle([1, 2]).take(5)
        """
        from streamactors.stages.sources.simple import Cycle

        return cls._of(Cycle(elements))
