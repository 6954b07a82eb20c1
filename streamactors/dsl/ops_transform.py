"""Operators that turn one element into one, and predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.transform import Filter, FilterNot, Map


class TransformOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def map(self, fn: Callable[[Out], U]) -> Ops[U, Mat]:
        """Apply `fn` to each element.

        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(Map(fn))

    def filter(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is true; with None, those that are true themselves.

        Emits when: the predicate is true.            Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(Filter(predicate))

    def filter_not(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is false; with None, those that are false themselves.

        Emits when: the predicate is false.           Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(FilterNot(predicate))
