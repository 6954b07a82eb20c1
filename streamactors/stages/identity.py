"""Identity: a flow that passes everything on. The beginning of `Flow.identity()`; left out wherever it can be."""

from __future__ import annotations

from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.stage import In, Stage


class Identity(Stage[In, In]):
    """Pass every element on.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    """

    handling = EXACT

    def logic(self) -> Logic:
        return _IdentityLogic()


class _IdentityLogic(FlowLogic):
    passes_marks = True

    def on_push(self, in_: Connection) -> None:
        out = self.out
        out.push(in_.grab(out.asked))
        if out.asked:
            in_.want(out.asked)
