"""The stage that runs windows in a graph: Records in, results out, one task per partition inside.

Owner: the island. `window_logic.py` handles rows, demand and marks; this file declares the stage to the engine.

The signal EndOfInput marks the end of an input; only a source that ends by itself sends it. If no such signal can arrive (after a queue, a
generator, or a stage that no marks pass), the completion of the stream counts as the end of the input."""

from __future__ import annotations

from typing import Any, Final

from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT_MEMORY, Needs
from streamactors.engine.stage import FLOW, GraphStage, Shape, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.windows.stage.window_logic import WindowLogic
from streamactors.windows.topology.task_factory import TaskFactory

WITH_LATE: Final = Shape(("in",), ("out", "late"))


def _keeps_changelog(source: GraphStage) -> bool:
    return bool(getattr(source, "keeps_changelog", False))


_WITH_CHANGELOG: Final = StageTraits(
    reads_marks=True,
    marks_timer_results=True,
    restores_state=True,
    needs=Needs("windows with a changelog", exact=True, if_from=_keeps_changelog),
)


class WindowStage(Stage[Any, Any]):
    """Group, window, aggregate and suppress Records as a topology says. With `keep_late` the second outlet gives the
    rows that closed windows refused (LateRecord).

    Emits when: an update or a window's result is due and downstream asks.   Backpressures when: an outlet does.
    Completes when: upstream completes and all results are out.              Cancels when: an outlet cancels.
    Supervision: resume and restart drop the row whose function raised; the windows keep their state.
    Marks: pass after the results emitted before them; with a changelog, one for each commit; exact.
    """

    name = "windows"
    handling = EXACT_MEMORY
    traits = StageTraits(reads_marks=True)  # the end of an input, silence and assignment of partitions are marks

    def __init__(self, factory: TaskFactory) -> None:
        self.factory = factory
        self.shape = WITH_LATE if factory.keep_late else FLOW
        if factory.intake.changelog:
            self.traits = _WITH_CHANGELOG

    def logic(self) -> Logic:
        return WindowLogic(self.factory)
