"""Constructors of Source for elements that exist already: iterables, ranges, files, single elements."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.engine.stage import NotUsed
from streamactors.stages.sources.async_iterable import FromAsyncIterable
from streamactors.stages.sources.iterables import FromIterable, Range
from streamactors.stages.sources.simple import Cycle, Empty, Failed, Lines, Never, Repeat, Single

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source


class FiniteSources(Constructors):
    """See the module."""

    __slots__ = ()

    @classmethod
    def from_iterable(cls, elements: Iterable[T]) -> Source[T, NotUsed]:
        return cls._of(FromIterable(elements))

    @classmethod
    def range(cls, start: int, stop: int | None = None, step: int = 1) -> Source[int, NotUsed]:
        return cls._of(Range(start, stop, step))

    @classmethod
    def from_async_iterable(
        cls, elements: AsyncIterable[T], loop: asyncio.AbstractEventLoop | None = None
    ) -> Source[T, NotUsed]:
        return cls._of(FromAsyncIterable(elements, loop))

    @classmethod
    def from_lines(cls, path: str | os.PathLike[str], encoding: str = "utf-8") -> Source[str, NotUsed]:
        return cls._of(Lines(path, encoding))

    @classmethod
    def single(cls, element: T) -> Source[T, NotUsed]:
        return cls._of(Single(element))

    @classmethod
    def empty(cls) -> Source[Any, NotUsed]:
        return cls._of(Empty())

    @classmethod
    def failed(cls, error: BaseException) -> Source[Any, NotUsed]:
        return cls._of(Failed(error))

    @classmethod
    def never(cls) -> Source[Any, NotUsed]:
        return cls._of(Never())

    @classmethod
    def repeat(cls, element: T) -> Source[T, NotUsed]:
        return cls._of(Repeat(element))

    @classmethod
    def cycle(cls, elements: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, NotUsed]:
        return cls._of(Cycle(elements))
