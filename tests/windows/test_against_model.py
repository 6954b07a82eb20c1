"""The real thing against the model: rows, order, releasing row, drop counts, what is held, errors. Both semantics."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models import window_model
from tests.models.window_case import Case, cases, variants
from tests.windows.run_case import run


def check(case: Case) -> None:
    wanted, got = window_model.run(case), run(case)
    assert got.released == wanted.released, case
    assert got.error == wanted.error, case
    whole = len(wanted.held) - (wanted.error is not None)  # what a failing row leaves behind is not defined
    assert got.held[:whole] == wanted.held[:whole], case
    if wanted.error is None:
        assert (got.late, got.null) == (wanted.late, wanted.null), case


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_every_case_is_as_the_model_says(case: Case) -> None:
    for variant in variants(case):
        check(variant)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_hundred_thousand_inputs_are_as_the_model_says() -> None:
    seen = 0

    @settings(max_examples=9_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases(max_rows=40))
    def compare(case: Case) -> None:
        nonlocal seen
        for variant in variants(case):
            check(variant)
            seen += 1

    compare()
    assert seen >= 100_000
