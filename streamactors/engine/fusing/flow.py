"""FusedFlow: adjacent maps, filters and scans as one stage with one generated loop."""

from __future__ import annotations

import logging
from types import CoroutineType
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.loop import FusedLoop, Op
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks.marks import Handling
from streamactors.engine.stage import FLOW, NOT_USED, GraphStage
from streamactors.engine.stage_traits import StageTraits

_log = logging.getLogger("streamactors.engine")


class FusedFlow(GraphStage):
    """One or more maps, filters and scans as one stage."""

    shape = FLOW
    traits = StageTraits(ends_with_inputs=True)

    def __init__(self, ops: tuple[Op, ...], handling: Handling, attributes: Attributes) -> None:
        self.ops = ops
        self.handling = handling
        self.name = "+".join(op.attributes.name or op.label for op in ops)
        self.attributes = attributes
        self._loop = FusedLoop(ops)
        self._maps_only = all(op.kind in ("map", "scan") for op in ops)

    def __reduce__(self) -> tuple[type[FusedFlow], tuple[tuple[Op, ...], Handling, Attributes]]:
        return FusedFlow, (self.ops, self.handling, self.attributes)  # the loop is generated anew

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        never_drops = self._maps_only and all(op.attributes.decider is None for op in self.ops)
        return _FusedFlowLogic(self._loop, self._maps_only, never_drops, attributes.max_chunk), NOT_USED


class _FusedFlowLogic(FlowLogic):
    passes_marks = True
    _warned = False

    def __init__(self, loop: FusedLoop, maps_only: bool, one_result_each: bool, max_chunk: int | None) -> None:
        self._run = loop
        self._state = loop.fresh()
        self._maps_only = maps_only
        self.one_result_each = one_result_each
        self._max_chunk = max_chunk
        self._zeros: list[Any] = []

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self._max_chunk)
        if self._run.scans:
            self._zeros, error = self._run.zeros(self._state)
            if error is not None:
                self.fail_stage(error)
            elif self._zeros:
                self.in_.hold()

    def on_pull(self, out: Connection) -> None:
        in_ = self.in_
        if self._zeros:
            self._zeros = push_first(self._zeros, out)
            if self._zeros:
                return
            in_.release()
        self._pace.ask(in_, out.asked, not self._maps_only)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        pace = self._pace
        results: list[Any] = []
        error = self._run(pace.take(in_, out.asked), results, self.interpreter.stop_slice, self._state, self)
        pace.give_back(in_)
        if results:
            if type(results[0]) is CoroutineType and not self._warned:
                self._warned = True
                warn_of_coroutine(results[0], self.name)
            out.push(results)
        if error is not None:
            self.fail_stage(error)
            return
        if out.asked:
            pace.ask(in_, out.asked, not self._maps_only)


def warn_of_coroutine(first: Any, stage: str) -> None:
    """Log a warning: the stage emits coroutine objects."""
    _log.warning(
        "%s emits coroutine objects (%s), which nobody awaits; use map_async(n, fn), which awaits what fn returns",
        stage,
        getattr(first, "__qualname__", "coroutine"),
    )


def push_first(waiting: list[Any], out: Connection) -> list[Any]:
    """Push as many elements of a list as downstream asks for; return the rest."""
    n = out.asked
    if n:
        out.push(waiting[:n])
    return waiting[n:]
