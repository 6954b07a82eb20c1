"""Every operator on elements with a context, in one class per carrier. Type checkers read `all_operators.pyi` instead."""

from __future__ import annotations

from typing import Generic

from streamactors.dsl.context.operators import ContextOperators
from streamactors.dsl.typevars import Ctx, CtxIn, In, Mat, Out


class SourceContextOps(ContextOperators[Out, Ctx, Mat]):
    """The operators, as SourceWithContext has them."""

    __slots__ = ()


class FlowContextOps(ContextOperators[Out, Ctx, Mat], Generic[In, CtxIn, Out, Ctx, Mat]):
    """The operators, as FlowWithContext has them."""

    __slots__ = ()
