"""on_complete: a sink that tells a function how the stream ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.sink import SinkLogic
from streamactors.engine.user_code import blame
from streamactors.errors import AbruptTermination
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks import SinkStage


class OnComplete(SinkStage):
    """Drop every element; at the end call a function with None, or with the error of a failed stream.

    Fails when: the function raises."""

    def __init__(self, fn: Callable[[BaseException | None], Any]) -> None:
        self._fn = plain_function("on_complete", fn)

    def logic(self) -> SinkLogic:
        return _OnCompleteLogic(self._fn)


class _OnCompleteLogic(SinkLogic):
    done_at_end = True

    def __init__(self, fn: Callable[[BaseException | None], Any]) -> None:
        super().__init__()
        self._fn = fn
        self._told = False

    def on_complete(self, in_: Connection) -> None:
        self._tell(None)
        super().on_complete(in_)

    def fail_stage(self, error: BaseException) -> None:
        if not self._told:
            try:
                self._tell(error)
            except BaseException as raised:  # noqa: BLE001  # two errors: the stream's own goes on, the other is its note
                error.add_note(f"on_complete raised {raised!r} when told of it")
        super().fail_stage(error)

    def _tell(self, error: BaseException | None) -> None:
        self._told = True
        try:
            self._fn(error)
        except BaseException as raised:
            blame(raised, self.name, function=self._fn)
            raise

    def on_stop(self) -> None:
        if not self._told:
            self._tell(AbruptTermination(f"{self.name} was stopped before its stream ended"))
        super().on_stop()
