"""Sources that give nothing: failed, never."""

from __future__ import annotations

from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError


class Failed(GraphStage):
    """Fail at once with an error.

    Emits when: never.                            Fails when: it starts.
    """

    shape = SOURCE

    def __init__(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            raise BuildError(f"failed expects an exception, got {type(error).__name__} {shortened(error, 60)}")
        self._error = error

    def logic(self) -> Logic:
        return _FailedLogic(self._error)


class _FailedLogic(SourceLogic):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def on_start(self) -> None:
        self.fail_stage(self._error)


class Never(GraphStage):
    """Neither emit nor end.

    Emits when: never.                            Completes when: never.
    """

    shape = SOURCE

    def logic(self) -> Logic:
        return SourceLogic()
