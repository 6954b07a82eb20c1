"""The type variables of the DSL: one spelling everywhere, so that signatures read alike and stubs can be generated."""

from __future__ import annotations

from typing import TypeVar

In = TypeVar("In", contravariant=True)
"""What a flow or a sink takes."""
Out = TypeVar("Out", covariant=True)
"""What a source or a flow emits."""
Mat = TypeVar("Mat", covariant=True)
"""What a part materializes."""

Ctx = TypeVar("Ctx", covariant=True)
"""The context that travels beside an element."""
CtxIn = TypeVar("CtxIn", contravariant=True)

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
K = TypeVar("K")
S = TypeVar("S")
M2 = TypeVar("M2")
M3 = TypeVar("M3")
M4 = TypeVar("M4")
