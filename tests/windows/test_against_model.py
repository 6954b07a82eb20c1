"""The real thing against the model: rows, order, releasing row, drop counts, what is held, errors. Both semantics."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models import window_model
from tests.models.window_case import Case, cases
from tests.windows.run_case import run


def check(case: Case) -> None:
    wanted, got = window_model.run(case), run(case)
    assert got.released == wanted.released
    assert got.error == wanted.error
    assert (got.late, got.null) == (wanted.late, wanted.null) or wanted.error is not None
    assert (
        got.held[: len(wanted.held) - (wanted.error is not None)]
        == wanted.held[: len(wanted.held) - (wanted.error is not None)]
    )


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_every_case_is_as_the_model_says(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(max_rows=40))
def test_a_hundred_thousand_cases_are_as_the_model_says(case: Case) -> None:
    check(case)
