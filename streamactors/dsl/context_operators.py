"""Every operator on elements with a context, in one class per carrier. Type checkers read `context_operators.pyi` instead."""

from __future__ import annotations

from typing import Generic

from streamactors.dsl.context_ops import ContextOps
from streamactors.dsl.typevars import Ctx, CtxIn, In, Mat, Out


class ContextOperators(ContextOps[Out, Ctx, Mat]):
    """The operators of SourceWithContext and FlowWithContext."""

    __slots__ = ()


class SourceContextOps(ContextOperators[Out, Ctx, Mat]):
    """The operators, as SourceWithContext has them."""

    __slots__ = ()


class FlowContextOps(ContextOperators[Out, Ctx, Mat], Generic[In, CtxIn, Out, Ctx, Mat]):
    """The operators, as FlowWithContext has them."""

    __slots__ = ()
