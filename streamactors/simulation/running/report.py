"""What a failing seed shows: what broke, what struck, how to see it again, its story and its file.

Owner: whoever tries seeds."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from streamactors.simulation.running.seeds import Run, Tried, describe
from streamactors.simulation.story.tell import tell

STORY_S: Final = 20.0
"""Real seconds for finding the shortest story."""
FOLDER: Final = ".simcases"


def report(
    tried: Tried,
    again: Run,
    *,
    name: str,
    test: str,
    repeat: str,
    repeat_case: str,
    folder: Path,
    story_s: float = STORY_S,
) -> str:
    """Return the text of a failure, and write the file of its shortest case.

    `name`: of the test, for the file; `test`: what the file says of it. `repeat`: how a user runs the seed again; `repeat_case`: the file at "{path}"."""
    case, outcome = tried.failing, tried.outcome
    assert case is not None
    assert outcome is not None
    assert outcome.broken is not None
    end = 0.0 if case.only is not None else time.monotonic() + story_s  # a case from a file is short
    story = tell(again, case, outcome, is_over=lambda: time.monotonic() > end)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{case.seed}.simcase"
    path.parent.mkdir(parents=True, exist_ok=True)
    story.save(path, test)
    return "\n".join(
        [
            f"seed {case.seed} breaks {describe(outcome.broken)}",
            story.text(),
            f"  see it again: {repeat}",
            f"  the shortest story alone: {repeat_case.format(path=path)}",
        ]
    )
