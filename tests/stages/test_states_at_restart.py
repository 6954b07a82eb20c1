"""What supervision's restart does to operators with a state: the state begins again, and nothing of the end comes in the middle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import Directive, Sink, Source
from streamactors.errors import BuildError

pytestmark = pytest.mark.expects_log("skipped: ")


FAILS_AT = 3


def restarted(source: Any) -> list[Any]:
    return source.with_attributes(decider=lambda error: Directive.RESTART).run_with(Sink.to_list()).result(timeout=20)


def counting_functions(made: list[int]) -> Callable[[], Callable[[int], list[int]]]:
    """Return a `create` whose functions number the elements that they have seen."""

    def create() -> Callable[[int], list[int]]:
        made.append(len(made))
        seen = 0

        def number(element: int) -> list[int]:
            nonlocal seen
            if element == FAILS_AT:
                raise ValueError(element)
            seen += 1
            return [seen, element]

        return number

    return create


@given(size=st.integers(1, 6))
@settings(max_examples=6)
def test_a_restarted_stateful_map_concat_makes_a_new_function(size: int) -> None:
    made: list[int] = []
    source = Source.range(1, 5).stateful_map_concat(counting_functions(made))
    assert restarted(source.with_attributes(max_chunk=size)) == [1, 1, 2, 2, 1, 4]
    assert made == [0, 1]


def test_a_resumed_stateful_map_concat_keeps_its_function() -> None:
    made: list[int] = []
    source = Source.range(1, 5).stateful_map_concat(counting_functions(made))
    resumed = source.with_attributes(decider=lambda error: Directive.RESUME).run_with(Sink.to_list())
    assert resumed.result(timeout=20) == [1, 1, 2, 2, 3, 4]
    assert made == [0]


def test_stateful_map_concat_reads_an_endless_iterable_on_demand() -> None:
    endless = Source.range(2).stateful_map_concat(lambda: lambda x: itertools.count(x)).take(3)
    assert endless.run_with(Sink.to_list()).result(timeout=20) == [0, 1, 2]


def test_stateful_map_concat_emits_the_results_before_an_error_of_the_iterable() -> None:
    def some(element: int) -> Any:
        yield element
        yield 1 // element

    seen: list[int] = []
    failing = Source.from_iterable([1, 0]).stateful_map_concat(lambda: some).run_with(Sink.foreach(seen.append))
    with pytest.raises(ZeroDivisionError) as caught:
        failing.result(timeout=20)
    assert seen == [1, 1, 0]
    assert "stateful_map_concat, element 0" in caught.value.__notes__[0]


def test_a_create_that_returns_no_function_is_an_error() -> None:
    with pytest.raises(BuildError, match="what create\\(\\) returns expects a function, got NoneType"):
        Source.range(2).stateful_map_concat(lambda: None).run_with(Sink.to_list()).result(timeout=20)


def test_the_value_of_close_is_emitted_only_at_the_end() -> None:
    opened: list[str] = []
    source = Source.range(1, 5).map_with_resource(
        lambda: opened.append("open"),
        lambda _, x: x if x != FAILS_AT else 1 // 0,
        lambda _: opened.append("close") or 99,
    )
    assert restarted(source) == [1, 2, 4, 99]
    assert opened == ["open", "close"] * 2


async def _add(total: int, element: int) -> int:
    return total + (element if element != FAILS_AT else 1 // 0)


def _add_now(total: int, element: int) -> int:
    return total + (element if element != FAILS_AT else 1 // 0)


def test_scan_async_restarts_as_scan_does() -> None:
    expected = restarted(Source.range(1, 6).scan(0, _add_now))
    assert expected == [0, 1, 3, 0, 4, 9]
    assert restarted(Source.range(1, 6).scan_async(0, _add)) == expected
    assert restarted(Source.range(1, 6).scan_async(0, _add_now)) == expected


def test_a_restarted_scan_async_begins_with_a_copy_of_zero() -> None:
    zero: list[int] = []

    async def collect(seen: list[int], element: int) -> list[int]:
        if element == FAILS_AT:
            raise ValueError(element)
        seen.append(element)
        return seen

    *_, last = restarted(Source.range(1, 5).scan_async(zero, collect))
    assert last == [4]
    assert zero == []


def test_fold_async_goes_back_to_zero_in_a_flow_and_in_a_sink() -> None:
    assert restarted(Source.range(1, 6).fold_async(0, _add)) == [9]
    sink = Sink.fold_async(0, _add).with_attributes(decider=lambda error: Directive.RESTART)
    assert Source.range(1, 6).run_with(sink).result(timeout=20) == 9


def test_the_sink_fold_async_folds_as_fold_does() -> None:
    async def add(total: int, element: int) -> int:
        return total + element

    assert Source.range(5).run_with(Sink.fold_async(0, add)).result(timeout=20) == 10
    assert Source.range(5).run_with(Sink.fold_async(0, lambda total, x: total + x)).result(timeout=20) == 10
    assert Source.empty().run_with(Sink.fold_async(7, add)).result(timeout=20) == 7
    with pytest.raises(ZeroDivisionError) as caught:
        Source.range(5).run_with(Sink.fold_async(0, _add)).result(timeout=20)
    assert "fold_async, element 3" in caught.value.__notes__[0]
