"""RxPY: pipelines as stages, and streams as observables. reactivex is imported when one of these is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out


class RxOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def rx(
        self,
        *operators: Callable[[Any], Any],
        holds: bool | None = None,
        max_buffer: int = 100_000,
        overflow: str = "fail",
    ) -> Ops[Any, Mat]:
        """Run elements through RxPY operators (`reactivex.operators`), as one stage with back-pressure.

        Emits when: the operators emit, or results wait that they emitted before.
        Backpressures when: downstream does, or results wait.   Completes when: the operators do and no results wait.
        Cancels when: downstream cancels, or the operators complete early (take).

        One element may expand to many results at once; more than `max_buffer` waiting fail the stream, or are dropped with
        `overflow="drop_head"`, "drop_tail" or "drop_new". Time operators follow the system's clock. `holds=False` says that
        operators which could hold elements (flat_map, for instance) hold none, so that progress can be followed through them.
        """
        from streamactors.stages.rx.pipeline import Rx

        return self._via(Rx(*operators, holds=holds, max_buffer=max_buffer, overflow=overflow))
