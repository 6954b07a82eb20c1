"""Every operator in one class, from the mix-ins by topic. Type checkers read `operators.pyi` instead of this file.

To add an operator: a method in the mix-in of its topic; a new mix-in goes into the list of bases below; then run
`python tools/operator_stubs.py`."""

from __future__ import annotations

from typing import Generic

from streamactors.dsl.ops_async import AsyncOps
from streamactors.dsl.ops_compose import ComposeOps
from streamactors.dsl.ops_error import ErrorOps
from streamactors.dsl.ops_flatten import FlattenOps
from streamactors.dsl.ops_fold import FoldOps
from streamactors.dsl.ops_junctions import JunctionOps
from streamactors.dsl.ops_limit import LimitOps
from streamactors.dsl.ops_rate import RateOps
from streamactors.dsl.ops_rx import RxOps
from streamactors.dsl.ops_timed import TimedOps
from streamactors.dsl.ops_transform import TransformOps
from streamactors.dsl.ops_watch import WatchOps
from streamactors.dsl.ops_windows import WindowOps
from streamactors.dsl.typevars import In, Mat, Out


class Operators(
    ComposeOps[Out, Mat],
    TransformOps[Out, Mat],
    AsyncOps[Out, Mat],
    ErrorOps[Out, Mat],
    FoldOps[Out, Mat],
    LimitOps[Out, Mat],
    RateOps[Out, Mat],
    TimedOps[Out, Mat],
    WatchOps[Out, Mat],
    JunctionOps[Out, Mat],
    FlattenOps[Out, Mat],
    RxOps[Out, Mat],
    WindowOps[Out, Mat],
):
    """The operators of Source, Flow and sub-flows."""

    __slots__ = ()


class SourceOps(Operators[Out, Mat]):
    """The operators, as Source has them."""

    __slots__ = ()


class FlowOps(Operators[Out, Mat], Generic[In, Out, Mat]):
    """The operators, as Flow has them: also on the class, where `Flow.map(f)` is `Flow.identity().map(f)`."""

    __slots__ = ()
