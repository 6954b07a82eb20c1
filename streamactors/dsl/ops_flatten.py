"""Operators that turn elements into sources and flatten these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.flatten import FlatMapConcat, FlatMapMerge

if TYPE_CHECKING:
    from streamactors.dsl.source import Source


class FlattenOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def flat_map_concat(self, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        """Turn each element into a source and emit these one after the other.

        Emits when: the current source has an element.   Backpressures when: downstream does.
        Completes when: upstream and the last source complete.   Cancels when: downstream cancels.
        Supervision: resume drops an element for which `fn` raised; a source that fails fails the stream.
        """
        return self._via(FlatMapConcat(fn))

    def flat_map_merge(self, breadth: int, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        """Turn each element into a source and merge these, at most `breadth` at a time.

        Emits when: one of the sources has an element.   Backpressures when: downstream does, or `breadth` sources run.
        Completes when: upstream and all sources complete.   Cancels when: downstream cancels.
        Fails when: one of the sources fails; the others are cancelled.
        """
        return self._via(FlatMapMerge(breadth, fn))
