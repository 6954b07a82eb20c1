"""on_complete: a sink that calls a function when the stream has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.sink import SinkLogic
from streamactors.engine.user_code import blame
from streamactors.errors import AbruptTermination
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks.values import SinkStage


class OnComplete(SinkStage):
    """The stage of `Sink.on_complete`."""

    def __init__(self, fn: Callable[[BaseException | None], Any]) -> None:
        self.fn = plain_function("on_complete", fn)


@logic_of(OnComplete)
class _OnCompleteLogic(SinkLogic):
    done_at_end = True

    stage: OnComplete
    _told = False

    def on_complete(self, in_: Connection) -> None:
        self._tell(None)
        super().on_complete(in_)

    def fail_stage(self, error: BaseException) -> None:
        if not self._told:
            try:
                self._tell(error)
            except BaseException as raised:  # noqa: BLE001  # the stream's own error is passed on, with a note
                error.add_note(f"on_complete raised {raised!r} when it was called with this error")
        super().fail_stage(error)

    def _tell(self, error: BaseException | None) -> None:
        self._told = True
        try:
            self.stage.fn(error)
        except BaseException as raised:
            blame(raised, self.name, function=self.stage.fn)
            raise

    def on_stop(self) -> None:
        if not self._told:
            self._tell(AbruptTermination(f"{self.name} was stopped before its stream ended"))
        super().on_stop()
