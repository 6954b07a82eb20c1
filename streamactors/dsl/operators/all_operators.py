"""Every operator in one class, from the mix-ins by topic. Type checkers read `all_operators.pyi` instead of this file.

To add an operator, write its stage in `streamactors/stages`, and one method in the mix-in of its topic, with the contract in its docstring;
then run `make docs`. A new mix-in goes into the list of bases below."""

from __future__ import annotations

from typing import Generic

from streamactors.dsl.operators.asking import AskOps
from streamactors.dsl.operators.asynchronous import AsyncOps
from streamactors.dsl.operators.bytes import ByteOps
from streamactors.dsl.operators.compose import ComposeOps
from streamactors.dsl.operators.context import FlowContextOp, SourceContextOp
from streamactors.dsl.operators.errors import ErrorOps
from streamactors.dsl.operators.fold import FoldOps
from streamactors.dsl.operators.junctions import JunctionOps
from streamactors.dsl.operators.limit import LimitOps
from streamactors.dsl.operators.rate import RateOps
from streamactors.dsl.operators.rows import RowOps
from streamactors.dsl.operators.rx import RxOps
from streamactors.dsl.operators.substreams import SubstreamOps
from streamactors.dsl.operators.timing import TimingOps
from streamactors.dsl.operators.transform import TransformOps
from streamactors.dsl.operators.watching import WatchingOps
from streamactors.dsl.operators.windows import WindowOps
from streamactors.dsl.typevars import In, Mat, Out


class Operators(
    ComposeOps[Out, Mat],
    TransformOps[Out, Mat],
    AsyncOps[Out, Mat],
    AskOps[Out, Mat],
    ErrorOps[Out, Mat],
    FoldOps[Out, Mat],
    LimitOps[Out, Mat],
    RateOps[Out, Mat],
    TimingOps[Out, Mat],
    WatchingOps[Out, Mat],
    JunctionOps[Out, Mat],
    SubstreamOps[Out, Mat],
    ByteOps[Out, Mat],
    RowOps[Out, Mat],
    RxOps[Out, Mat],
    WindowOps[Out, Mat],
):
    """The operators of Source, Flow and sub-flows."""

    __slots__ = ()


class SourceOps(Operators[Out, Mat], SourceContextOp[Out, Mat]):
    """The operators, as Source has them."""

    __slots__ = ()


class FlowOps(Operators[Out, Mat], FlowContextOp[In, Out, Mat], Generic[In, Out, Mat]):
    """The operators, as Flow has them: also on the class, where `Flow.map(f)` is `Flow.identity().map(f)`."""

    __slots__ = ()


class SubFlowOps(Operators[Out, Mat]):
    """The operators, as a sub-flow has them."""

    __slots__ = ()
