"""The story of a failing case, from its shortest form. Owner: whoever tries seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamactors.simulation.face.case import Case, Outcome
from streamactors.simulation.story import simcase
from streamactors.simulation.story.mistake import Mistake, mistake_of
from streamactors.simulation.story.shrink import shrunk
from streamactors.simulation.story.timeline import text_of

MOST_LINES: Final = 60
"""A longer timeline is cut in its middle."""


@dataclass(frozen=True)
class Story:
    """The shortest case that breaks the check, and what it shows. `first`: the outcome of the case that was found."""

    case: Case
    outcome: Outcome
    first: Outcome
    mistake: Mistake | None

    def text(self) -> str:
        """Return the story: the faults and records that are left, the kind of mistake, and the timeline."""
        outcome = self.outcome
        assert outcome.broken is not None
        faults, records = len(outcome.strikes), self.case.records
        kept = "all records" if records is None else f"{len(records)} of {self.first.counts.get('records', 0)} records"
        lines = [
            f"  shortest story: {faults} of {len(self.first.strikes)} faults, {kept}",
            *(f"    {each.at_ms / 1_000:9.3f} s  {each.text}" for each in outcome.strikes),
            f"  what broke: {outcome.broken.text}",
        ]
        if self.mistake is not None:
            lines += [f"  kind of mistake: {self.mistake.kind}", f"    {self.mistake.text}"]
        marked = [] if self.mistake is None else [self.mistake.at_us]
        timeline = text_of(outcome.events, marked)
        if len(timeline) > MOST_LINES:
            half = MOST_LINES // 2
            left = len(timeline) - 2 * half
            timeline = [*timeline[:half], f"{'':12}… {left} lines …", *timeline[-half:]]
        return "\n".join([*lines, "", *(f"  {line}" for line in timeline), ""])

    def save(self, path: Path, test: str = "") -> None:
        """Write the case to a file that repeats it (`simcase.load`). `test`: MODULE:TEST."""
        simcase.save(path, test, self.case, self.outcome)


def tell(again: Callable[[Case], Outcome], failing: Case, outcome: Outcome, *, is_over: Callable[[], bool]) -> Story:
    """Return the story of a failing case. `again` runs a case; `is_over`: whether it is called for no further one."""
    case, shortest = shrunk(again, failing, outcome, is_over)
    assert shortest.broken is not None
    return Story(case, shortest, outcome, mistake_of(shortest.events, shortest.broken))
