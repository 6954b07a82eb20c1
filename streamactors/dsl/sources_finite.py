"""Constructors of Source for what is there already: iterables, ranges, single elements, nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.typevars import T
from streamactors.engine.blueprint import StageModule
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.stages.iterables import FromIterable, Range

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


def source(stage: GraphStage) -> Source[Any, Any]:
    """Return the source of a stage."""
    from streamactors.dsl.source import Source

    return Source(StageModule(stage))
