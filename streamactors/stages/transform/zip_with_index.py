"""zip_with_index: each element with its number. Marks pass at once and exactly; the operator remembers the number."""

from __future__ import annotations

import itertools
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage


class ZipWithIndex(Stage[In, tuple[In, int]]):
    """The stage of `Source.zip_with_index`."""

    handling = EXACT_MEMORY


@logic_of(ZipWithIndex)
class _ZipWithIndexLogic(FlowLogic):
    passes_marks = True

    def __init__(self, stage: Any) -> None:
        self._numbers = itertools.count()

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(list(zip(chunk, self._numbers, strict=False)))  # the chunk is the shorter one
        if out.asked:
            in_.want(out.asked)
