"""Constructors of Source for what is there already: iterables, ranges, single elements, nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.typevars import T
from streamactors.engine.blueprint import StageModule
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.stages.async_iterable import FromAsyncIterable
from streamactors.stages.ends import Failed, Never
from streamactors.stages.iterables import FromIterable, Range
from streamactors.stages.re_iterables import Cycle, Empty, Lines, Repeat, Single

if TYPE_CHECKING:
    from streamactors.dsl.source import Source


class FiniteSources:
    """See the module."""

    __slots__ = ()

    @classmethod
    def from_iterable(cls, elements: Iterable[T]) -> Source[T, NotUsed]:
        """Emit the elements of an iterable (a list, a generator, a dict's keys, a numpy array), one per demand.

        Each run asks it for a new iterator, so a generator object serves one run only. One that can be iterated again
        can be replayed (`with_replay`).

        Emits when: there is demand and the iterable has an element.
        Completes when: the iterable ends.            Fails when: the iterable raises.
        """
        return source(FromIterable(elements))

    @classmethod
    def range(cls, start: int, stop: int | None = None, step: int = 1) -> Source[int, NotUsed]:
        """Emit the integers that the builtin `range` of the same arguments has.

        Emits when: there is demand.                  Completes when: the range ends.
        """
        return source(Range(start, stop, step))

    @classmethod
    def from_async_iterable(
        cls, elements: AsyncIterable[T], loop: asyncio.AbstractEventLoop | None = None
    ) -> Source[T, NotUsed]:
        """Emit the elements of an async generator or another async iterable.

        It runs on the asyncio loop of the actor system; objects that belong to a loop of yours need that loop as `loop`.

        Emits when: an element has come for which there was demand.
        Completes when: the iterable ends.            Fails when: the iterable raises.
        """
        return source(FromAsyncIterable(elements, loop))

    @classmethod
    def from_lines(cls, path: str | os.PathLike[str], encoding: str = "utf-8") -> Source[str, NotUsed]:
        """Emit the lines of a text file, without their line ends. Can be replayed by line number (`with_replay`).

        Emits when: there is demand and a line was read.   Completes when: the file ends.
        Fails when: the file cannot be read or decoded.
        """
        return source(Lines(path, encoding))

    @classmethod
    def single(cls, element: T) -> Source[T, NotUsed]:
        """Emit one element.

        Emits when: there is demand.                  Completes when: it has emitted.
        """
        return source(Single(element))

    @classmethod
    def empty(cls) -> Source[Any, NotUsed]:
        """Complete at once.

        Emits when: never.                            Completes when: it starts.
        """
        return source(Empty())

    @classmethod
    def failed(cls, error: BaseException) -> Source[Any, NotUsed]:
        """Fail at once with `error`.

        Emits when: never.                            Fails when: it starts.
        """
        return source(Failed(error))

    @classmethod
    def never(cls) -> Source[Any, NotUsed]:
        """Neither emit nor end.

        Emits when: never.                            Completes when: never.
        """
        return source(Never())

    @classmethod
    def repeat(cls, element: T) -> Source[T, NotUsed]:
        """Emit the same element for ever.

        Emits when: there is demand.                  Completes when: never.
        """
        return source(Repeat(element))

    @classmethod
    def cycle(cls, elements: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, NotUsed]:
        """Emit an iterable's elements over and over; a function is called for a new iterable each time round.

        Emits when: there is demand.                  Completes when: never.
        Fails when: the iterable is empty, or raises.
        """
        return source(Cycle(elements))


def source(stage: GraphStage) -> Source[Any, Any]:
    """Return the source of a stage."""
    from streamactors.dsl.source import Source

    return Source(StageModule(stage))
