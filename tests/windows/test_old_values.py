"""Laws of what an update carries beside its new value: the value before it, and only windows that can still be seen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.windows.operators.windowed.sliding_plan import Pane, Panes, PaneUpdate, plan, plan_early
from tests.models.window_case import Case
from tests.windows.test_against_model import check

quiet = settings(deadline=None, suppress_health_check=list(HealthCheck))
WINDOWS: dict[str, tuple[Any, ...]] = {
    "tumbling": ("time", 5, 5, 3),
    "hopping": ("time", 6, 2, 3),
    "session": ("session", 3, 4),
    "sliding": ("sliding", 5, 4),
    "unlimited": ("unlimited", 0),
    "none": ("none",),
}
STEPS = {
    "filter": (("filter",),),
    "filter behind a time limit": (("limit", 2, None, None, "shut_down"), ("filter",)),
    "time limit behind a filter": (("filter",), ("limit", 2, None, None, "shut_down")),
}
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["x", "yy", "!"]), st.integers(0, 12)),
    min_size=2,
    max_size=12,
)


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("windows", WINDOWS)
@settings(quiet, max_examples=60)
@given(rows=ROWS, aggregate=st.sampled_from(["count", "aggregate"]))
def test_a_filter_says_that_a_result_has_left_if_the_value_before_passed_it(
    windows: str, steps: str, semantics: str, rows: list[tuple[str, str, int]], aggregate: str
) -> None:
    """Only the old value of an update says so. An update without it would leave the result in the filtered table forever."""
    check(Case(WINDOWS[windows], aggregate, STEPS[steps], tuple(rows), False, semantics))


@st.composite
def _panes(draw: st.DrawFn) -> Panes:
    starts = sorted(draw(st.sets(st.integers(0, 24), max_size=12)))
    panes = []
    for start in starts:
        timestamp = start + draw(st.integers(0, 10))
        panes.append(Pane("a", "a", start, f"pane at {start}", timestamp, None, None))
    return Panes.of(panes)


def _facts(updates: list[PaneUpdate]) -> list[tuple[Any, ...]]:
    return [(each.pane, each.start, each.old, each.timestamp, each.copies) for each in updates]


@settings(quiet, max_examples=300)
@given(panes=_panes(), t=st.integers(0, 24), shown_from=st.integers(0, 26))
def test_a_hidden_window_is_as_if_it_were_gone(panes: Panes, t: int, shown_from: int) -> None:
    """Kafka Streams' store hides windows behind its retention. They lie before the others, and take nothing of the others with them."""
    difference = 10
    planned = plan_early if t < difference else plan
    seen = Panes.of([pane for pane in panes.panes if pane.start >= shown_from])
    assert _facts(planned(panes, t, difference, shown_from)) == _facts(planned(seen, t, difference, 0))
