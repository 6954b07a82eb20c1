"""aggregate_with_boundary with a timer: an aggregate goes out by its boundary, by its timer with demand, or with the next demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem
from streamactors.stages.fold.aggregating import AggregateWithBoundary
from tests.stages.harness import Bench

EVERY_10: Any = (lambda held: True, "10ms")


def lists(timer: Any = EVERY_10, full: int = 3) -> AggregateWithBoundary[Any, Any]:
    return AggregateWithBoundary(list, lambda held, x: ([*held, x], len(held) + 1 == full), tuple, timer)


def test_an_aggregate_goes_out_at_each_interval(timeless: ActorSystem) -> None:
    with Bench(timeless, lists()) as bench:
        bench.request(9)
        bench.send(1, 2)
        bench.mark()
        bench.advance("9ms")
        assert bench.seen == []
        bench.advance("1ms")
        assert bench.seen == [("element", (1, 2)), ("mark", 2)]
        bench.advance("50ms")
        assert len(bench.seen) == 2, "there is no aggregate"
        bench.send(3)
        bench.advance("10ms")
        assert bench.received == [(1, 2), (3,)]


def test_the_boundary_does_not_wait_for_the_timer(timeless: ActorSystem) -> None:
    with Bench(timeless, lists()) as bench:
        bench.request(9)
        bench.send(1, 2, 3, 4)
        assert bench.received == [(1, 2, 3)]
        bench.advance("10ms")
        assert bench.received == [(1, 2, 3), (4,)]


def test_an_aggregate_that_is_due_without_demand_goes_out_with_the_next(timeless: ActorSystem) -> None:
    with Bench(timeless, lists()) as bench:
        bench.request(1)
        bench.send(1, 2, 3, 4)
        bench.mark()
        assert (bench.received, bench.pushed) == ([(1, 2, 3)], [1, 2, 3, 4])
        bench.advance("10ms")
        bench.request(1)
        assert bench.seen == [("element", (1, 2, 3)), ("element", (4,)), ("mark", 4)]


@pytest.mark.parametrize(("due", "received"), [(lambda held: len(held) > 1, [(1, 2)]), (lambda held: False, [])])
def test_the_timer_asks_its_predicate(timeless: ActorSystem, due: Callable[[Any], bool], received: list[Any]) -> None:
    with Bench(timeless, lists((due, "10ms"))) as bench:
        bench.request(9)
        bench.send(1)
        bench.advance("10ms")
        assert bench.received == []
        bench.send(2)
        bench.advance("10ms")
        assert bench.received == received


def test_a_predicate_that_raises_fails_the_stream_and_is_named(timeless: ActorSystem) -> None:
    with Bench(timeless, lists((lambda held: 1 // 0, "10ms"))) as bench:
        bench.request(9)
        bench.advance("10ms")
        assert bench.end is None, "nobody is asked without an aggregate"
        bench.send(1)
        bench.advance("10ms")
        assert isinstance(bench.end, ZeroDivisionError)
        assert "aggregate_with_boundary, element [1]" in bench.end.__notes__[0]


def test_the_end_emits_the_last_aggregate_and_ends_the_timer(timeless: ActorSystem) -> None:
    with Bench(timeless, lists()) as bench:
        bench.send(1)
        bench.request(1)
        bench.mark()
        bench.complete()
        assert (bench.received, bench.marks, bench.end) == ([(1,)], [1], "completed")
    with Bench(timeless, lists()) as bench:
        bench.request(1)
        bench.complete()
        assert (bench.received, bench.end) == ([], "completed")


def test_a_result_of_none_is_a_result(timeless: ActorSystem) -> None:
    stage: Any = AggregateWithBoundary(list, lambda held, x: (held, x == 2), lambda held: None)
    with Bench(timeless, stage) as bench:
        bench.request(9)
        bench.send(1, 2, 3)
        bench.complete()
        assert bench.received == [None, None]
