"""The laws for operators that decouple speeds or follow the clock."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.limit.within import DropWithin, TakeWithin
from streamactors.stages.rate.buffer import Buffer, Detach
from streamactors.stages.rate.conflate import Batch, BatchWeighted, ConflateWithSeed
from streamactors.stages.rate.extrapolating import Expand, Extrapolate
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.timing.delay import Delay, InitialDelay
from streamactors.stages.timing.timeouts import (
    BackpressureTimeout,
    CompletionTimeout,
    IdleTimeout,
    InitialTimeout,
    KeepAlive,
)
from tests.stages.laws import RUNS, Case, Hook, check_run, check_user_error
from tests.stages.test_laws_simple import SLOW_OK, tapped, windows


def listed(hook: Hook) -> Any:
    """Aggregate into tuples; the hook is called with each element."""
    return tapped(hook, lambda x: (x,)), tapped(hook, lambda acc, x: (*acc, x))


def all_in_order(most: int) -> Any:
    """Every element is in one result, in order, at most so many in one."""

    def verify(received: list[Any], sent: list[int], completed: bool) -> None:
        flat = list(itertools.chain.from_iterable(received))
        assert flat == sent if completed else flat == sent[: len(flat)]
        assert all(1 <= len(result) <= most for result in received)

    return verify


def heavy(received: list[Any], sent: list[int], completed: bool) -> None:
    all_in_order(1_000)(received, sent, completed)
    assert all(len(result) == 1 or sum(1 + x % 3 for x in result) <= 5 for result in received)


def some_in_order(received: list[Any], sent: list[int], completed: bool) -> None:
    assert received == sorted(set(received)), "in order, none twice"
    assert set(received) <= set(sent)
    if completed and len(sent) <= 3:
        assert received == sent, "nothing is dropped while there is room"


def repeated_in_order(received: list[Any], sent: list[int], completed: bool) -> None:
    known = [x for x, _ in itertools.groupby(received)]
    assert known == sent if completed else known == sent[: len(known)]


def lossy(strategy: str) -> Case:
    return Case(lambda _: Buffer(3, strategy), calls=False, verify=some_in_order, demand=None)


CASES = {
    "buffer": Case(lambda _: Buffer(3), calls=False, demand=lambda n: n + 3),
    "detach": Case(lambda _: Detach(), calls=False, demand=lambda n: n + 1),
    "drop_head": lossy("drop_head"),
    "drop_tail": lossy("drop_tail"),
    "drop_buffer": lossy("drop_buffer"),
    "drop_new": lossy("drop_new"),
    "delay": Case(lambda _: Delay("10ms", buffer=4), calls=False, demand=lambda n: n + 4, step_ms=10),
    "delay_drop_head": Case(
        lambda _: Delay("10ms", buffer=3, strategy="drop_head"),
        calls=False,
        demand=None,
        step_ms=10,
        verify=some_in_order,
    ),
    "delay_drop_tail": Case(
        lambda _: Delay("10ms", buffer=3, strategy="drop_tail"),
        calls=False,
        demand=None,
        step_ms=10,
        verify=some_in_order,
    ),
    "conflate_with_seed": Case(
        lambda hook: ConflateWithSeed(*listed(hook)),
        lambda xs: [(x,) for x in xs],
        verify=all_in_order(1_000),
        demand=None,
    ),
    "batch": Case(
        lambda hook: Batch(4, *listed(hook)), lambda xs: [(x,) for x in xs], verify=all_in_order(4), demand=None
    ),
    "batch_weighted": Case(
        lambda hook: BatchWeighted(5, lambda x: 1 + x % 3, *listed(hook)),
        lambda xs: [(x,) for x in xs],
        verify=heavy,
        demand=None,
    ),
    "expand": Case(
        lambda _: Expand(lambda x: iter([x] * 3)), verify=repeated_in_order, demand=lambda n: n + 1, calls=False
    ),
    "expand_by_nothing": Case(lambda hook: Expand(tapped(hook, lambda x: [x])), demand=lambda n: n + 1),
    "extrapolate": Case(
        lambda _: Extrapolate(lambda x: itertools.repeat(x, 2)),
        verify=repeated_in_order,
        demand=lambda n: n + 1,
        calls=False,
    ),
    "throttle": Case(lambda _: Throttle(1, "10ms"), calls=False, step_ms=10),
    "throttle_burst": Case(lambda _: Throttle(100, "1s", burst=3), calls=False, step_ms=10),
    "throttle_cost": Case(
        lambda hook: Throttle(1, "1ms", burst=2, cost=tapped(hook, lambda x: x % 4)), step_ms=100, loses_on_failure=True
    ),
    "initial_delay": Case(lambda _: InitialDelay("20ms"), calls=False, step_ms=20),
    "take_within": Case(lambda _: TakeWithin("1h"), calls=False),
    "drop_within": Case(lambda _: DropWithin("1h"), lambda xs: [], calls=False, demand=None),
    "grouped_within": Case(lambda _: GroupedWithin(3, "1h"), windows(3, 3), calls=False, demand=None),
    "grouped_within_time": Case(
        lambda _: GroupedWithin(4, "15ms"), verify=all_in_order(4), calls=False, demand=None, step_ms=15
    ),
    "initial_timeout": Case(lambda _: InitialTimeout("1h"), calls=False),
    "completion_timeout": Case(lambda _: CompletionTimeout("1h"), calls=False),
    "idle_timeout": Case(lambda _: IdleTimeout("1h"), calls=False),
    "backpressure_timeout": Case(lambda _: BackpressureTimeout("1h"), calls=False),
    "keep_alive": Case(lambda _: KeepAlive("1h", lambda: -1), calls=False, demand=lambda n: n + 1),
}
CALLING = [name for name, case in CASES.items() if case.calls]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, run):
    check_run(CASES[name], timeless, run)


@pytest.mark.parametrize("name", CALLING)
@pytest.mark.parametrize("kind", [ValueError, StopIteration])
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
def test_results_before_an_exception_go_out_first(timeless, name, kind, sizes, at):
    check_user_error(CASES[name], timeless, sizes, at, kind)
