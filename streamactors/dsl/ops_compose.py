"""Operators that put parts together: via, async_boundary, map_materialized_value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.part import checked_combine, joined, module_of
from streamactors.dsl.typevars import M2, M3, Mat, Out, U
from streamactors.engine.blueprint import AsyncBoundary, MatMapped
from streamactors.engine.stage import Stage
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function, positive

if TYPE_CHECKING:
    from streamactors.dsl.flow import Flow


class ComposeOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def via(self, flow: Flow[Out, U, Any] | Stage[Any, U]) -> Ops[U, Mat]:
        """Put a flow, or a stage of your own, behind this part; keep this part's materialized value."""
        return self._with(joined(self.module, module_of("via", flow, (1, 1))))

    def via_mat(self, flow: Flow[Out, U, M2], combine: Callable[[Mat, M2], M3]) -> Ops[U, M3]:
        """As `via`; the materialized value is `combine(this part's, the flow's)`, for instance Keep.both."""
        return self._with(joined(self.module, module_of("via_mat", flow, (1, 1)), checked_combine("via_mat", combine)))

    def async_boundary(self, buffer: int | None = None, *, process: bool = False) -> Ops[Out, Mat]:
        """Run what comes next in an actor of its own.

        `buffer` is the number of elements that may be on the way; without it the number follows the consumer, from 16 to
        4,096. Completion arrives behind the elements, a failure overtakes them. `process=True` will give it a worker
        process; there are none yet, so it is refused."""
        if process:
            raise BuildError("async_boundary(process=True): there are no worker processes yet; leave it out")
        if buffer is not None:
            positive("async_boundary", "buffer", buffer)
        return self._via(AsyncBoundary(buffer))

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> Ops[Out, M2]:
        """Return this part with `fn(materialized value)` as its materialized value."""
        return self._with(MatMapped(self.module, plain_function("map_materialized_value", fn)))
