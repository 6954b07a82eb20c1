"""The shortest case that still breaks the same check: strikes and records are left out while it does (delta debugging).

Owner: the story. Nothing here depends on the real clock but the end of the time: equal cases shrink equally if there is time enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from streamactors.simulation.face.case import Case, Outcome

T = TypeVar("T")
Run = Callable[[Case], Outcome]


def shrunk(again: Run, case: Case, outcome: Outcome, is_over: Callable[[], bool]) -> tuple[Case, Outcome]:
    """Return the shortest case found and its outcome. `is_over`: begin no further run."""
    best = [(case, outcome)]

    def breaks(tried: Case) -> bool:
        found = again(tried)
        same = found.broken is not None and outcome.broken is not None and found.broken.check == outcome.broken.check
        if same:
            best[0] = (tried, found)
        return same

    strikes = [each.id for each in outcome.strikes]
    fewest(strikes, lambda kept: breaks(replace(best[0][0], only=frozenset(kept))), is_over)
    records = sorted(range(outcome.counts.get("records", 0)) if case.records is None else case.records)
    fewest(records, lambda kept: breaks(replace(best[0][0], records=frozenset(kept))), is_over)
    return best[0]


def fewest(parts: Sequence[T], breaks: Callable[[Sequence[T]], bool], is_over: Callable[[], bool]) -> list[T]:
    """Return a short list of parts that breaks, where leaving out any one piece that was tried does not.

    `breaks` is asked for lists of the parts, in their order; `parts` itself is known to break."""
    kept = list(parts)
    if not kept or is_over():
        return kept
    if breaks([]):
        return []
    pieces = 2
    while len(kept) > 1 and not is_over():
        size = -(-len(kept) // pieces)
        for begin in range(0, len(kept), size):
            if is_over():
                return kept
            rest = kept[:begin] + kept[begin + size :]
            if rest and breaks(rest):
                kept, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                return kept
            pieces = min(pieces * 2, len(kept))
    return kept
