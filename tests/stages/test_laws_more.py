"""The laws for grouping by weight and time, boundaries, sampling, distinct, retries, flows inside stages, and what only watches."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import Flow, RestartSettings
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitionedUnordered
from streamactors.stages.bases.later import FromMaterializer, LazyPart
from streamactors.stages.control.retry import Retrying
from streamactors.stages.fold.aggregating import AggregateWithBoundary
from streamactors.stages.fold.weighted_within import GroupedWeightedWithin
from streamactors.stages.limit.distinct import Distinct
from streamactors.stages.substreams.flat_map_prefix import FlatMapPrefix
from streamactors.stages.timing.delay import DelayWith
from streamactors.stages.timing.sampling import Debounce, Sample
from streamactors.stages.watching.meter import Meter
from streamactors.stages.watching.monitor import Monitor
from tests.stages.laws import RUNS, Case, check_resume, check_run, check_user_error
from tests.stages.test_laws_async import all_in_any_order, coroutine, each, plain
from tests.stages.test_laws_rate import all_in_order
from tests.stages.test_laws_simple import SLOW_OK, tapped

pytestmark = pytest.mark.expects_log("skipped: ")


def cost(x: int) -> int:
    return 1 + x % 3


def by_weight(most: float, number: int | None = None) -> Any:
    def model(xs: list[int]) -> list[list[int]]:
        groups: list[list[int]] = []
        group: list[int] = []
        for x in xs:
            if group and sum(map(cost, group)) + cost(x) > most:
                groups.append(group)
                group = []
            group.append(x)
            if sum(map(cost, group)) >= most or len(group) == number:
                groups.append(group)
                group = []
        return [*groups, group] if group else groups

    return model


def light(received: list[Any], sent: list[int], completed: bool) -> None:
    all_in_order(4)(received, sent, completed)
    assert all(len(group) == 1 or sum(map(cost, group)) <= 4 for group in received)


def up_to_threes(xs: list[int]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    part: tuple[int, ...] = ()
    for x in xs:
        part = (*part, x)
        if x % 3 == 2:
            out.append(part)
            part = ()
    return [*out, part] if part else out


def boundary(hook: Any, timer: Any = None) -> AggregateWithBoundary[Any, Any]:
    return AggregateWithBoundary(
        tuple, tapped(hook, lambda part, x: ((*part, x), x % 3 == 2)), lambda part: part, timer
    )


def some_in_order(received: list[Any], sent: list[int], completed: bool) -> None:
    assert received == sorted(set(received))
    assert set(received) <= set(sent)
    if completed and sent:
        assert received[-1:] == sent[-1:], "the last element is emitted"


def first_of_each_fourth(xs: list[int]) -> list[int]:
    return [x for i, x in enumerate(xs) if x // 4 not in {y // 4 for y in xs[:i]}]


NO_RETRY = RestartSettings("1ms", "1ms")

CASES = {
    "weighted_within": Case(lambda h: GroupedWeightedWithin(5, "1h", tapped(h, cost)), by_weight(5), demand=None),
    "weighted_within_number": Case(
        lambda h: GroupedWeightedWithin(50, "1h", tapped(h, cost), 3), by_weight(50, 3), demand=None
    ),
    "weighted_within_time": Case(
        lambda _: GroupedWeightedWithin(4, "15ms", cost), verify=light, calls=False, demand=None, step_ms=15
    ),
    "boundary": Case(lambda h: boundary(h), up_to_threes, demand=None),
    "boundary_timer": Case(
        lambda h: boundary(h, (lambda part: len(part) > 1, "10ms")),
        verify=all_in_order(3),
        calls=False,
        demand=None,
        step_ms=10,
    ),
    "delay_with": Case(
        lambda h: DelayWith(lambda: tapped(h, lambda x: f"{x % 4 * 5}ms"), buffer=4),
        calls=False,
        demand=lambda n: n + 4,
        step_ms=20,
    ),
    "sample": Case(lambda _: Sample("10ms"), verify=some_in_order, calls=False, demand=None, step_ms=10),
    "debounce": Case(lambda _: Debounce("10ms"), verify=some_in_order, calls=False, demand=None, step_ms=10),
    "distinct": Case(lambda h: Distinct(key=tapped(h, lambda x: x // 4)), first_of_each_fourth, demand=None),
    "monitor": Case(lambda _: Monitor(), calls=False),
    "meter": Case(lambda _: Meter("1s"), calls=False),
    "retry": Case(
        lambda h: Retrying(NO_RETRY, Flow.map(tapped(h, lambda x: x)), lambda x, y: None),
        calls=False,
    ),
    "flat_map_prefix": Case(
        lambda h: FlatMapPrefix(2, lambda first: Flow.map(lambda x: (x,))),
        lambda xs: [(x,) for x in xs[2:]],
        calls=False,
        demand=None,
    ),
    "lazy_flow": Case(
        lambda h: LazyPart("lazy_flow", lambda: Flow.identity()), calls=False, demand=lambda n: max(n, 1)
    ),
    "from_materializer": Case(
        lambda h: FromMaterializer(lambda system, attributes: Flow.grouped(2)),
        lambda xs: [xs[i : i + 2] for i in range(0, len(xs), 2)],
        calls=False,
        demand=None,
    ),
    "partitioned_unordered": Case(
        lambda h: MapAsyncPartitionedUnordered(4, lambda x: x % 3, coroutine(h)),
        each,
        verify=all_in_any_order,
        calls=False,
        demand=lambda n: n + 4,
        step_ms=5,
    ),
    "partitioned_unordered_plain": Case(
        lambda h: MapAsyncPartitionedUnordered(4, lambda x: x % 2, plain(h)),
        each,
        verify=all_in_any_order,
        calls=False,
        demand=lambda n: n + 4,
    ),
}
CALLING = [name for name, case in CASES.items() if case.calls]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, run):
    check_run(CASES[name], timeless, run)


@pytest.mark.parametrize("name", CALLING)
@pytest.mark.parametrize("kind", [ValueError, StopIteration])
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
def test_results_before_an_exception_go_out_first(timeless, name, kind, sizes, at):
    check_user_error(CASES[name], timeless, sizes, at, kind)


@pytest.mark.parametrize("name", ["weighted_within", "boundary", "distinct"])
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), at=st.integers(0, 9))
def test_resume_leaves_out_the_element_that_raised(timeless, name, sizes, at):
    check_resume(CASES[name], timeless, sizes, at)


def test_the_models_are_not_trivial():
    assert by_weight(5)(list(range(6))) == [[0, 1], [2, 3], [4, 5]]
    assert up_to_threes(list(range(5))) == [(0, 1, 2), (3, 4)]
    assert first_of_each_fourth([0, 1, 4, 5, 2]) == [0, 4]
    assert list(itertools.chain(*by_weight(50, 3)(list(range(7))))) == list(range(7))
