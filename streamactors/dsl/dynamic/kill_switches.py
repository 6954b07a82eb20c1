"""KillSwitches: flows by which code outside a stream ends it."""

from __future__ import annotations

from typing import Any

from streamactors.dsl.flow import Flow
from streamactors.dsl.graph.component import BidiFlow
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.control.kill_switch import KillSwitch, KillSwitchStage


class SwitchFlow(Flow[Any, Any, "SharedKillSwitch"]):
    """The flow of a shared switch: `switch.flow` and `switch.flow()` are the same."""

    __slots__ = ()

    def __call__(self) -> SwitchFlow:
        return self


class SharedKillSwitch(KillSwitch):
    """One switch for any number of streams. A stream that starts after the switch was used ends at once."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if not isinstance(name, str) or not name:
            raise BuildError(
                f"KillSwitches.shared: the name must be a string that is not empty, got {shortened(name, 60)}"
            )
        self.name = name

    @property
    def flow(self) -> SwitchFlow:
        """The flow to put into a stream; it materializes this switch."""
        return SwitchFlow(StageModule(KillSwitchStage(self))).named(self.name)

    def __repr__(self) -> str:
        return f"<SharedKillSwitch {self.name!r}{', used' if self.used else ''}>"


class KillSwitches:
    """Makes kill switches. `shutdown()` completes downstream and cancels upstream; `abort(error)` fails both."""

    @staticmethod
    def single() -> Flow[Any, Any, KillSwitch]:
        """Return a flow that passes elements on; each run materializes a new switch.

        Completes when: upstream completes, or shutdown is called.   Fails when: abort is called.

        Example:
            a -1-2-3|
            a.via(KillSwitches.single())
        """
        return Flow(StageModule(KillSwitchStage()))

    @staticmethod
    def single_bidi() -> BidiFlow[Any, Any, Any, Any, KillSwitch]:
        """Return a bidi flow whose two directions end together; each run materializes a new switch.

        Example:
            a -1-2-3|
            a.via(KillSwitches.single_bidi().join(Flow.map(lambda x: x * 10)))
        """
        return BidiFlow(StageModule(KillSwitchStage(two_ways=True)))

    @staticmethod
    def shared(name: str = "kill_switch") -> SharedKillSwitch:
        """Return a switch for many streams: put its `flow()` into each.

        Example:
            a -1-2-3|
            b ----|
            switch = KillSwitches.shared()
            b.run_with(Sink.on_complete(lambda error: switch.shutdown()))
            a.via(switch.flow())
        """
        return SharedKillSwitch(name)
