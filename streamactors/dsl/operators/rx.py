"""RxPY: pipelines as stages, and streams as observables. reactivex is imported when one of these is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out


class RxOps(Ops[Out, Mat]):
    """`rx`: RxPY operators as a flow."""

    __slots__ = ()

    def rx(
        self,
        *operators: Callable[[Any], Any],
        holds: bool | None = None,
        max_buffer: int = 100_000,
        overflow: str = "fail",
    ) -> Ops[Any, Mat]:
        """Run elements through RxPY operators (`reactivex.operators`), as one stage with back-pressure.

        Emits when: the operators emit, or earlier results wait.
        Backpressures when: downstream does, or results wait.   Completes when: the operators complete and no results wait.
        Cancels when: downstream cancels, or the operators complete early (take).
        Fails when: the operators fail, after the results emitted before; or more than `max_buffer` results wait (overflow="fail").

        One element may have many results at once. When more than `max_buffer` wait, the stream fails, or some are dropped with
        `overflow="drop_head"`, "drop_tail" or "drop_new". Time operators follow the system's clock. Marks pass operators that
        hold nothing, and wait for what debounce, sample, delay, buffers, flat_map, switch_latest and their like hold. `holds=False` declares
        that other operators hold no elements, so that marks pass at once.

        Example:
            a -1--2--3|
            a.via(Flow.rx(rx.pairwise()))
        """
        from streamactors.stages.rx.pipeline import Rx

        return self._via(Rx(*operators, holds=holds, max_buffer=max_buffer, overflow=overflow))
