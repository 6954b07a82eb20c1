"""PassingLogic: the base of flows that pass every element on and only look at what happens."""

from __future__ import annotations

from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic


class PassingLogic(FlowLogic):
    """Holds nothing, so marks pass at once."""

    passes_marks = True

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)
