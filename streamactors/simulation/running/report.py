"""What a failing seed shows: what broke, what struck, how to see it again, its story and its file.

Owner: whoever tries seeds."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any, Final

from streamactors.simulation.face.case import Case, Outcome
from streamactors.simulation.running.seeds import Run, Tried, describe

MOST_STRIKES: Final = 8
STORY_S: Final = 20.0
"""Real seconds for finding the shortest story."""
FOLDER: Final = ".simcases"
_STORY: Final = "streamactors.simulation.story"


def report(tried: Tried, again: Run, *, name: str, repeat: str, folder: Path) -> str:
    """Return the text of a failure. `name`: of the test. `repeat`: how a user runs the seed again."""
    case, outcome = tried.failing, tried.outcome
    assert case is not None
    assert outcome is not None
    assert outcome.broken is not None
    lines = [f"seed {case.seed} breaks {describe(outcome.broken)}"]
    story = _story(again, case, outcome)
    if story is not None:
        lines.append(story.text())
    else:
        lines += _strikes(outcome)
    lines.append(f"  see it again: {repeat}")
    if story is not None:
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{case.seed}.simcase"
        path.parent.mkdir(parents=True, exist_ok=True)
        story.save(path)
        lines.append(f"  its file: {path}")
    return "\n".join(lines)


def _story(again: Run, case: Case, outcome: Outcome) -> Any:
    if importlib.util.find_spec(_STORY) is None:
        return None
    return importlib.import_module(f"{_STORY}.tell").tell(again, case, outcome, budget_s=STORY_S)


def _strikes(outcome: Outcome) -> list[str]:
    told = [f"  {strike.at_ms / 1_000:9.3f} s  {strike.text}" for strike in outcome.strikes[-MOST_STRIKES:]]
    left = len(outcome.strikes) - len(told)
    return [f"  {left} faults before", *told] if left > 0 else told
