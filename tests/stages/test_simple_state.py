"""Operators that keep something: when they begin anew, and what supervision does to it."""

from __future__ import annotations

import pytest

from streamactors import Sink, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.supervision import restarting, resuming
from streamactors.errors import NoSuchElement, StreamLimitReached
from streamactors.stages.fold.fold import Fold, Reduce, Scan, StatefulMap
from streamactors.stages.limit.counting import Limit, LimitWeighted
from streamactors.stages.limit.predicates import DropRepeated, DropWhile
from streamactors.stages.rate.buffer import Detach
from streamactors.stages.rate.conflate import Batch, BatchWeighted, Conflate
from streamactors.stages.rate.extrapolating import Expand, Extrapolate
from tests.stages.harness import Bench

pytestmark = pytest.mark.expects_log("skipped: ")


RESUME = Attributes(decider=resuming)


RESTART = Attributes(decider=restarting)


def closing(closed):
    def close(state):
        closed.append(state)
        return ("closed", state)

    return close


def fragile(state, x):
    if x == 0:
        raise ZeroDivisionError("zero")
    return state + 1, x


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "raise"])
def test_stateful_map_closes_its_state_once_however_the_stream_ends(timeless, end):
    closed = []
    with Bench(timeless, StatefulMap(lambda: 0, fragile, closing(closed))) as bench:
        bench.request(10)
        bench.send(5, 6)
        if end == "complete":
            bench.complete()
        elif end == "fail":
            bench.fail(ValueError("upstream"))
        elif end == "cancel":
            bench.cancel()
        else:
            bench.send(0)
        assert closed == [2]
        assert bench.stopped
        assert bench.received == [5, 6] + ([("closed", 2)] if end != "cancel" else [])
        assert (bench.end == "completed") is (end == "complete")
        assert closed == [2]


def test_what_stateful_map_gives_last_waits_for_demand_even_before_a_failure(timeless):
    with Bench(timeless, StatefulMap(lambda: 0, fragile, closing([]))) as bench:
        bench.request(1)
        bench.send(5)
        bench.fail(error := ValueError("upstream"))
        assert bench.end is None
        bench.request(1)
        assert bench.received == [5, ("closed", 1)]
        assert bench.end is error


def test_stateful_map_keeps_its_state_on_resume_and_makes_a_new_one_on_restart(timeless):
    for attributes, expected in ((RESUME, [5, 6, ("closed", 2)]), (RESTART, [5, ("closed", 1), 6, ("closed", 1)])):
        with Bench(timeless, StatefulMap(lambda: 0, fragile, closing([])), attributes) as bench:
            bench.request(10)
            bench.send(5, 0, 6)
            bench.complete()
            assert bench.received == expected


def test_stateful_map_whose_functions_raise_at_the_ends_fails_the_stream(timeless):
    def explode(*_):
        raise ValueError("explode")

    with Bench(timeless, StatefulMap(explode, fragile)) as bench:
        assert isinstance(bench.end, ValueError)
    with Bench(timeless, StatefulMap(lambda: 0, fragile, explode)) as bench:
        bench.complete()
        assert isinstance(bench.end, ValueError)
        assert "in stage stateful_map" in bench.end.__notes__[0]


def test_scan_goes_back_to_zero_on_restart_and_keeps_its_value_on_resume(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    for attributes, expected in ((RESUME, [0, 1, 4, 9, 16]), (RESTART, [0, 1, 4, 0, 5, 12])):
        with Bench(timeless, Scan(0, add), attributes) as bench:
            bench.request(10)
            bench.send(1, 3, -1, 5, 7)
            assert bench.received == expected


def test_scan_emits_zero_also_when_there_is_no_element(timeless):
    with Bench(timeless, Scan(7, lambda a, x: a + x)) as bench:
        bench.complete()
        assert bench.end is None, "zero has not been asked for"
        bench.request(1)
        assert (bench.received, bench.end) == ([7], "completed")


def test_fold_and_reduce_forget_on_restart(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    cases = [
        (Fold(10, add), RESUME, 16),
        (Fold(10, add), RESTART, 15),
        (Reduce(add), RESUME, 6),
        (Reduce(add), RESTART, 5),
    ]
    for stage, attributes, expected in cases:
        with Bench(timeless, stage, attributes) as bench:
            bench.request(1)
            bench.send(1, -1, 5)
            bench.complete()
            assert bench.received == [expected]


def test_reduce_of_nothing_fails_and_reduce_of_none_is_none(timeless):
    with Bench(timeless, Reduce(lambda a, x: x)) as bench:
        bench.request(1)
        bench.complete()
        assert isinstance(bench.end, NoSuchElement)
    with Bench(timeless, Reduce(lambda a, x: x)) as bench:
        bench.request(1)
        bench.send(None)
        bench.complete()
        assert bench.received == [None]


def test_drop_while_and_drop_repeated_resume_behind_what_raised(timeless):
    def below(x):
        return x < 10 // (x - 1)

    with Bench(timeless, DropWhile(below), RESUME) as bench:
        bench.request(10)
        bench.send(2, 1, 0, 5)
        assert bench.received == [0, 5]

    def same(a, b):
        return a // b == 1

    for attributes, expected in ((RESUME, [4, 9]), (RESTART, [4, 4, 9])):
        with Bench(timeless, DropRepeated(same), attributes) as bench:
            bench.request(10)
            bench.send(4, 4, 0, 4, 9)
            assert bench.received == expected


def test_drop_repeated_compares_with_the_last_one_emitted_none_included(timeless):
    with Bench(timeless, DropRepeated()) as bench:
        bench.request(10)
        bench.send(None, None, 1, 1, None, 2)
        assert bench.received == [None, 1, None, 2]


def test_limit_fails_with_the_element_too_many_behind_those_before(timeless):
    for stage in (Limit(2), LimitWeighted(4, lambda x: 2)):
        with Bench(timeless, stage) as bench:
            bench.request(10)
            bench.send(1, 2)
            assert bench.end is None
            bench.send(3, 4)
            assert bench.received == [1, 2]
            assert isinstance(bench.end, StreamLimitReached)
    with Bench(timeless, LimitWeighted(4, lambda x: 10 // x), RESTART) as bench:
        bench.request(10)
        bench.send(5, 5, 0, 5, 5)
        assert bench.received == [5, 5, 5, 5], "restart begins to count anew"


def test_batch_weighted_leaves_a_heavy_element_in_front_and_asks_its_cost_once(timeless):
    costs = []

    def cost(x):
        costs.append(x)
        return x

    with Bench(timeless, BatchWeighted(10, cost, lambda x: [x], lambda acc, x: [*acc, x])) as bench:
        bench.send(4, 5, 3, 2)
        assert bench.asked == 0
        bench.request(1)
        assert bench.received == [[4, 5]]
        assert costs[:3] == [4, 5, 3]
        bench.request(5)
        bench.complete()
        assert bench.received == [[4, 5], [3, 2]]


def test_conflate_forgets_what_it_has_on_restart(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    for attributes, expected in ((RESUME, 8), (RESTART, 5)):
        with Bench(timeless, Conflate(add), attributes) as bench:
            for x in (1, 2, -1, 5):
                bench.send(x)
            bench.request(1)
            assert bench.received == [expected]


def test_batch_on_upstream_failure_gives_up_what_it_has(timeless):
    with Bench(timeless, Batch(5, lambda x: [x], lambda acc, x: [*acc, x])) as bench:
        bench.send(1)
        bench.fail(error := ValueError("upstream"))
        bench.request(1)
        assert (bench.received, bench.end) == ([], error)


def test_expand_fills_demand_while_upstream_is_silent_and_takes_new_elements_first(timeless):
    with Bench(timeless, Expand(lambda x: iter([x, x, x]))) as bench:
        bench.request(2)
        assert bench.received == []
        bench.send(1)
        assert bench.received == [1, 1]
        bench.send(2)
        bench.request(5)
        assert bench.received == [1, 1, 2, 2, 2]


def test_extrapolate_starts_with_its_initial_element(timeless):
    with Bench(timeless, Extrapolate(lambda x: [x + 100], initial=0)) as bench:
        bench.request(2)
        assert bench.received == [0, 100]
        bench.send(1)
        bench.request(5)
        assert bench.received == [0, 100, 1, 101]
    with Bench(timeless, Extrapolate(lambda x: [], initial=None)) as bench:
        bench.complete()
        bench.request(1)
        assert (bench.received, bench.end) == ([None], "completed")


@pytest.mark.parametrize("size", [1, 2, 8])
def test_extrapolate_starts_with_its_initial_element_where_upstream_is_as_fast_as_downstream(timeless, size):
    # the first element was there when the demand came, and its event was the first: 1, 0, 2, 3
    source = Source.from_iterable([1, 2, 3]).max_chunk(size).extrapolate(lambda x: [], initial=0)
    assert source.run_with(Sink.to_list(), timeless).result(30) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_extrapolate_whose_function_raises_fails_when_it_is_needed(timeless, kind):
    def explode(_):
        raise kind("explode")

    with Bench(timeless, Extrapolate(explode)) as bench:
        bench.request(1)
        bench.send(1)
        assert bench.received == [1]
        bench.request(1)
        assert type(bench.end) is kind


def test_detach_is_one_ahead_and_gives_the_last_element_without_demand_at_completion(timeless):
    with Bench(timeless, Detach()) as bench:
        assert bench.asked == 1
        bench.send(1)
        bench.complete()
        assert bench.end is None
        bench.request(1)
        assert (bench.received, bench.end) == ([1], "completed")
