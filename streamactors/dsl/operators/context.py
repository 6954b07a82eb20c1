"""with_context: the operator that gives each element a context. Source and Flow have different forms of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from streamactors.dsl.kinds import FlowWithContext, SourceWithContext, part
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.part import joined
from streamactors.dsl.typevars import In, K, Mat, Out, T, U
from streamactors.engine.blueprint.modules import StageModule, keep_right
from streamactors.stages.checks import plain_function


class SourceContextOp(Ops[Out, Mat]):
    """The form of Source."""

    __slots__ = ()

    def with_context(self, extract: Callable[[Out], U]) -> SourceWithContext[Out, U, Mat]:
        """Return this source with `extract(element)` as the context of each element; the context travels beside the element's results."""
        context_of = plain_function("with_context", extract)
        after = _map(lambda element: (element, context_of(element)))
        return part(SourceWithContext, joined(self.module, after))


class FlowContextOp(Ops[Out, Mat], Generic[In, Out, Mat]):
    """The form of Flow."""

    __slots__ = ()

    def with_context(
        self, collapse: Callable[[T, K], In], extract: Callable[[Out], U]
    ) -> FlowWithContext[T, K, Out, U, Mat]:
        """Return this flow for elements with contexts: the flow takes `collapse(element, context)`, and the context of a result is
        `extract(result)`.

        Example:
            a -1----2|
            a.with_context(lambda x: x * 10).as_source()
        """
        element_of = plain_function("with_context: collapse", collapse)
        context_of = plain_function("with_context: extract", extract)
        before = _map(lambda pair: element_of(*pair))
        after = _map(lambda result: (result, context_of(result)))
        return part(FlowWithContext, joined(joined(before, self.module, keep_right), after))


def _map(fn: Callable[[Any], Any]) -> StageModule:
    from streamactors.stages.transform.mapping import Map

    return StageModule(Map(fn))
