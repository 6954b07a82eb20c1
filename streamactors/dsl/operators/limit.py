"""Operators that pass a part of the stream: by number, by predicate, by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.stages.limit.counting import Drop, Limit, LimitWeighted, Take
from streamactors.stages.limit.distinct import Distinct
from streamactors.stages.limit.predicates import DropRepeated, DropWhile, TakeUntil, TakeWhile
from streamactors.stages.limit.within import DropWithin, TakeWithin


class LimitOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def take(self, n: int) -> Ops[Out, Mat]:
        return self._via(Take(n))

    def take_while(self, predicate: Callable[[Out], Any], inclusive: bool = False) -> Ops[Out, Mat]:
        return self._via(TakeWhile(predicate, inclusive))

    def take_until(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        return self._via(TakeUntil(predicate))

    def take_within(self, span: Duration) -> Ops[Out, Mat]:
        return self._via(TakeWithin(span))

    def drop(self, n: int) -> Ops[Out, Mat]:
        return self._via(Drop(n))

    def drop_while(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        return self._via(DropWhile(predicate))

    def drop_within(self, span: Duration) -> Ops[Out, Mat]:
        return self._via(DropWithin(span))

    def drop_repeated(self, same: Callable[[Out, Out], Any] | None = None) -> Ops[Out, Mat]:
        return self._via(DropRepeated(same))

    def distinct(self, capacity: int = 100_000, key: Callable[[Out], Any] | None = None) -> Ops[Out, Mat]:
        return self._via(Distinct(capacity, key))

    def limit(self, n: int) -> Ops[Out, Mat]:
        return self._via(Limit(n))

    def limit_weighted(self, n: int, cost: Callable[[Out], int]) -> Ops[Out, Mat]:
        return self._via(LimitWeighted(n, cost))
