"""CoupledTermination: two ways that end together. The base of `from_sink_and_source_coupled`."""

from __future__ import annotations

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.stage import GraphStage
from streamactors.stages.control.kill_switch import TWO_WAYS


class CoupledTermination(GraphStage):
    """Pass elements both ways; when one of the four ports completes, cancels or fails, all do.

    Emits when: upstream of that way does.        Backpressures when: downstream of that way does.
    Completes when: an inlet completes or an outlet is cancelled.   Cancels when: an inlet completes or an outlet is cancelled.
    Fails when: an inlet fails, or an outlet is cancelled with a failure.
    """

    shape = TWO_WAYS


@logic_of(CoupledTermination)
class _CoupledLogic(Logic):
    """Inlet i feeds outlet i. The default handlers end the whole stage."""

    def on_pull(self, out: Connection) -> None:
        self.inlets[out.out_index].want(out.asked)

    def on_push(self, in_: Connection) -> None:
        out = self.outlets[in_.in_index]
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(chunk)
        in_.want(out.asked)
