"""PassingLogic: the base of flows that pass every element on and watch the signals. Identity: the flow that does only that."""

from __future__ import annotations

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage


class Identity(Stage[In, In]):
    """Pass every element on. `Flow.identity()` starts with it; joining leaves it out.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    """

    handling = EXACT


@logic_of(Identity)
class PassingLogic(FlowLogic):
    """Holds no elements, so marks pass at once."""

    passes_marks = True
    one_result_each = True

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)
