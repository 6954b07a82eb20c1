"""Operators that decouple the speeds of upstream and downstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.bases.emitting import NOT_GIVEN
from streamactors.stages.rate.buffer import BACKPRESSURE, Buffer, Detach
from streamactors.stages.rate.conflate import Batch, BatchWeighted, Conflate, ConflateWithSeed
from streamactors.stages.rate.extrapolating import Expand, Extrapolate
from streamactors.stages.rate.throttle import Throttle


class RateOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def buffer(self, n: int, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        return self._via(Buffer(n, strategy))

    def detach(self) -> Ops[Out, Mat]:
        return self._via(Detach())

    def conflate(self, aggregate: Callable[[Out, Out], U]) -> Ops[Out | U, Mat]:
        return self._via(Conflate(aggregate))

    def conflate_with_seed(self, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        return self._via(ConflateWithSeed(seed, aggregate))

    def batch(self, max_elements: int, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        return self._via(Batch(max_elements, seed, aggregate))

    def batch_weighted(
        self,
        max_weight: int,
        cost: Callable[[Out], int],
        seed: Callable[[Out], U],
        aggregate: Callable[[U, Out], U],
    ) -> Ops[U, Mat]:
        return self._via(BatchWeighted(max_weight, cost, seed, aggregate))

    def expand(self, fn: Callable[[Out], Iterable[U]]) -> Ops[U, Mat]:
        return self._via(Expand(fn))

    def extrapolate(self, fn: Callable[[Out], Iterable[U]], initial: U = NOT_GIVEN) -> Ops[Out | U, Mat]:
        return self._via(Extrapolate(fn, initial))

    def throttle(
        self,
        n: int,
        per: Duration = "1s",
        burst: int | None = None,
        cost: Callable[[Out], float] | str | None = None,
        mode: str = "shaping",
    ) -> Ops[Out, Mat]:
        if isinstance(cost, str):  # throttle(n, per, burst, mode): no element costs more than another
            mode = cost
            cost = None
        return self._via(Throttle(n, per, burst, cost, mode))
