"""flat_map_prefix: a flow for the rest of a stream, made from its first elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import OPAQUE
from streamactors.engine.stage import In, Out, Stage
from streamactors.stages.bases.later import MadeLogic
from streamactors.stages.checks import at_least, plain_function


class FlatMapPrefix(Stage[In, Out]):
    """The stage of `Source.flat_map_prefix`."""

    handling = OPAQUE  # the flow for the rest is made while the stream runs, after the marks were planned

    def __init__(self, n: int, fn: Callable[[list[Any]], Any]) -> None:
        self.n = at_least("flat_map_prefix", "n", n, 0)
        self.fn = plain_function("flat_map_prefix", fn)


@logic_of(FlatMapPrefix)
class _FlatMapPrefixLogic(MadeLogic):
    def __init__(self, stage: FlatMapPrefix[Any, Any]) -> None:
        super().__init__(stage)
        self._prefix: list[Any] = []

    def on_start(self) -> None:
        self._collect()

    def _collect(self) -> None:
        missing = self.stage.n - len(self._prefix)
        if not missing:
            self.begin_with(self.stage.fn, self._prefix)
        elif self._out is not None and self._out.asked:
            self._in.want(missing)

    def on_pull(self, out: Connection) -> None:
        if self.begun:
            super().on_pull(out)
        else:
            self._collect()

    def on_push(self, in_: Connection) -> None:
        if self.begun:
            super().on_push(in_)
        else:
            self._prefix += in_.grab(self.stage.n - len(self._prefix))
            self._collect()

    def ended_before(self) -> None:
        self.begin_with(self.stage.fn, self._prefix)

    def snapshot_state(self) -> str:
        return super().snapshot_state() if self.begun else f"{len(self._prefix)} of {self.stage.n} elements"
