"""validate and divert_if: elements that are invalid leave the stream through a side sink, and their marks wait for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import BuildError, FailedElement, Flow, Keep, Sink, Source
from streamactors.stages.transform.validating import Validate
from tests.stages.laws import RUNS, Case, check_resume, check_run
from tests.stages.test_laws_simple import SLOW_OK, tapped


def even(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x * 10


def origins(result: Any) -> set[int]:
    return {result.element} if type(result) is FailedElement else {result // 10}


def shown(failed: FailedElement) -> Any:
    return failed.element, str(failed.error), failed.attempts, failed.stage


STAGE = Case(lambda hook: Validate(tapped(hook, lambda x: x * 10)), lambda xs: [x * 10 for x in xs], origins=origins)


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws(timeless, run):
    check_run(STAGE, timeless, run)


@settings(max_examples=60, deadline=None)
@given(xs=st.lists(st.integers(0, 9)), chunk=st.integers(1, 4))
def test_every_chunking_equals_the_model(timeless, xs, chunk):
    dead: list[FailedElement] = []
    checked = Source.from_iterable(xs).max_chunk(chunk).validate(even, dead_letters=Sink.foreach(dead.append))
    assert checked.run_with(Sink.to_list(), timeless).result(timeout=30) == [x * 10 for x in xs if x % 2 == 0]
    assert [shown(each) for each in dead] == [(x, f"{x} is odd", 1, "validate") for x in xs if x % 2]


@settings(max_examples=60, deadline=None)
@given(xs=st.lists(st.integers(0, 9)), chunk=st.integers(1, 4))
def test_divert_if_equals_divert_to(timeless, xs, chunk):
    odd: list[int] = []
    source = Source.from_iterable(xs).max_chunk(chunk).divert_if(lambda x: x % 2, Sink.foreach(odd.append))
    assert source.run_with(Sink.to_list(), timeless).result(timeout=30) == [x for x in xs if x % 2 == 0]
    assert odd == [x for x in xs if x % 2]


def test_divert_if_keeps_the_materialized_values_that_mat_chooses(actor_system):
    flow = Source.range(0, 4).divert_if(lambda x: x > 1, Sink.to_list(), mat=Keep.right)
    diverted, kept = flow.to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert (diverted.result(timeout=30), kept.result(timeout=30)) == ([2, 3], [0, 1])


def test_a_function_that_only_checks_emits_the_element_itself(actor_system):
    def check(order: dict[str, int]) -> None:
        if order["amount"] <= 0:
            raise ValueError("no amount")

    orders = [{"amount": 1}, {"amount": 0}]
    dead: list[FailedElement] = []
    good = Source.from_iterable(orders).validate(check, dead_letters=Sink.foreach(dead.append))
    assert good.run_with(Sink.to_list(), actor_system).result(timeout=30) == [{"amount": 1}]
    assert [each.element for each in dead] == [{"amount": 0}]


def test_a_predicate_is_refused_with_the_way_out(actor_system):
    # a stream of True and False, which nobody wanted
    wrong = Source.single(1).validate(lambda x: x > 0, dead_letters=Sink.ignore())
    with pytest.raises(TypeError, match=r"returned True for 1; .* for a predicate write divert_if"):
        wrong.run_with(Sink.to_list(), actor_system).result(timeout=30)


def test_an_error_that_on_does_not_choose_fails_the_stream(actor_system):
    wrong = Source.from_iterable([2, 0]).validate(lambda x: 6 // x, on=ValueError, dead_letters=Sink.ignore())
    with pytest.raises(ZeroDivisionError) as failed:
        wrong.run_with(Sink.to_list(), actor_system).result(timeout=30)
    assert any("in stage validate, element 0" in note for note in failed.value.__notes__)


def test_a_failing_dead_letter_sink_fails_the_stream(actor_system):
    def store(failed: FailedElement) -> None:
        raise OSError("disk full")

    wrong = Source.range(0, 5).validate(even, dead_letters=Sink.foreach(store))
    with pytest.raises(OSError, match="disk full"):
        wrong.run_with(Sink.to_list(), actor_system).result(timeout=30)


def test_what_is_no_sink_is_refused_where_it_is_written():
    with pytest.raises(BuildError, match="validate: dead_letters must be a sink of FailedElement"):
        Flow.validate(even, dead_letters="orders-dead")
    with pytest.raises(BuildError, match="validate expects a plain function"):

        async def later(x: int) -> int:
            return x

        Flow.validate(later, dead_letters=Sink.ignore())


@pytest.mark.expects_log("skipped: ")
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), at=st.integers(0, 9))
def test_resume_drops_the_element_whose_error_is_not_chosen(timeless, sizes, at):
    case = Case(
        lambda hook: Validate(tapped(hook, lambda x: x * 10), on=KeyError),
        lambda xs: [x * 10 for x in xs],
        origins=origins,
    )
    check_resume(case, timeless, sizes, at)
