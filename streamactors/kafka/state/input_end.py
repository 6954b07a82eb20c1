"""Whether a stream reached the end of its input or was stopped before, known from the marks that pass.

Owner: the stage. The answer holds when the stream has completed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Assigned, EndOfInput, Key, Mark, Revoked
from streamactors.engine.stage import Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.stages.bases.passing import PassingLogic
from streamactors.windows.state.changelogs import Provider, changelogs_of


class InputEnd:
    """`reached`: every assigned partition has reached its end."""

    def __init__(self) -> None:
        self._open: set[Key] = set()
        self.sources: Callable[[], Iterable[Provider]] = tuple
        """Returns the providers of changelogs among the sources of the stream; call it when the run is built."""

    def mark(self, mark: Mark) -> None:
        """A mark has come by."""
        if isinstance(mark, Assigned):
            self._open.add(mark.key)
        elif isinstance(mark, Revoked | EndOfInput):
            self._open.discard(mark.key)

    @property
    def reached(self) -> bool:
        return not self._open


class WatchEnd(Stage[Any, Any]):
    """Pass everything; materialize an InputEnd.

    Emits when: upstream does.   Backpressures when: downstream does.   Completes when: upstream completes.
    Cancels when: downstream cancels.   Marks: at once, exact.
    """

    name = "watch_end"
    handling = EXACT
    traits = StageTraits(reads_marks=True)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _WatchEndLogic()
        return logic, logic.end


class _WatchEndLogic(PassingLogic):
    passes_marks = False

    def __init__(self) -> None:
        self.end = InputEnd()

    def bind(self) -> None:
        """Called when the connections are known."""
        super().bind()
        offered = changelogs_of(self.interpreter.island.run)
        self.end.sources = lambda: offered.providers_of(self.in_.carries).values()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.end.mark(mark)
        self.out.mark(mark)
