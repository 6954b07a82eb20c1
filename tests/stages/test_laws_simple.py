"""The laws for operators without time: counting, filtering, folding, expanding, grouping, watching."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.engine.attributes import NONE
from streamactors.engine.fusing.flow import FusedFlow
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.stages.errors.recovering import MapError, Recover
from streamactors.stages.fold.fold import Fold, Reduce, Scan, StatefulMap
from streamactors.stages.fold.grouping import Grouped, Sliding
from streamactors.stages.limit.counting import Drop, Limit, LimitWeighted, Take
from streamactors.stages.limit.predicates import DropRepeated, DropWhile, TakeUntil, TakeWhile
from streamactors.stages.transform.expanding import Intersperse, MapChunks, MapConcat
from streamactors.stages.transform.mapping import Collect, Filter, FilterNot, Map
from streamactors.stages.transform.zip_with_index import ZipWithIndex
from streamactors.stages.watching.observing import Log, WatchTermination
from tests.stages.laws import Case, Hook, check_resume, check_run, check_user_error

pytestmark = [pytest.mark.expects_log("skipped: "), pytest.mark.expects_log("[laws] failed: Broken", again=True)]


SLOW_OK = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def tapped(hook: Hook, fn: Any) -> Any:
    """Return `fn` with the hook called first, on the last argument."""

    def call(*arguments: Any) -> Any:
        hook(arguments[-1])
        return fn(*arguments)

    return call


def windows(n: int, step: int) -> Any:
    def model(xs: list[int]) -> list[Any]:
        made = []
        for start in range(0, len(xs), step):
            whole = start + n <= len(xs)
            if whole or start == 0 or start - step + n < len(xs):
                made.append(xs[start : start + n])
            if not whole:
                break
        return made

    return model


def scanned(xs: list[int]) -> list[Any]:
    made: list[Any] = [(0, ())]
    for x in xs:
        made.append((made[-1][0] + x, (x,)))
    return made


def fused(*stages: Any) -> FusedFlow:
    """Map, filter and scan stages as one, as the planner makes it."""
    return FusedFlow(tuple(stage.op(NONE) for stage in stages), EXACT_MEMORY, NONE)


def added(acc: Any, x: Any) -> Any:
    return (acc[0] + sum(x[1]), x[1])


def scan_scan(xs: list[int]) -> list[Any]:
    """The second scan's zero, then what it makes of the first one's."""
    inner = [(0, ()), *((x, (x,)) for x in xs if x % 3)]
    made: list[Any] = [(0, ())]
    for x in inner:
        made.append(added(made[-1], x))
    return [x for x in made if x[0] % 2 == 0]


def dropped_repeated(xs: list[int]) -> list[int]:
    made: list[int] = []
    for x in xs:
        if not made or x // 3 != made[-1] // 3:
            made.append(x)
    return made


def taken_while(xs: list[int], n: int, inclusive: bool) -> list[int]:
    made: list[int] = []
    for x in xs:
        if x >= n:
            return [*made, x] if inclusive else made
        made.append(x)
    return made


def repeated(x: int) -> Any:
    """Lists, tuples and generators of 0 to 4 results."""
    kinds: list[Any] = [list, tuple, iter, lambda xs: (y for y in xs)]
    return kinds[x % 4]([x] * (x % 5))


def generator(x: int) -> Any:
    """Two results, read one at a time."""
    yield x
    yield x


CASES = {
    "map": Case(lambda hook: Map(tapped(hook, lambda x: (x,))), lambda xs: [(x,) for x in xs]),
    "filter": Case(
        lambda hook: Filter(tapped(hook, lambda x: x % 3)), lambda xs: [x for x in xs if x % 3], demand=None
    ),
    "filter_not": Case(
        lambda hook: FilterNot(tapped(hook, lambda x: x % 3)), lambda xs: [x for x in xs if not x % 3], demand=None
    ),
    "take": Case(lambda _: Take(7), lambda xs: xs[:7], calls=False, early=True, demand=lambda n: min(n, 7)),
    "take_none": Case(lambda _: Take(0), lambda xs: [], calls=False, early=True, demand=lambda n: 0),
    "drop": Case(lambda _: Drop(7), lambda xs: xs[7:], calls=False, demand=lambda n: n + 7),
    "drop_none": Case(lambda _: Drop(0), lambda xs: xs, calls=False),
    "limit": Case(lambda _: Limit(100), lambda xs: xs, calls=False),
    "limit_weighted": Case(lambda hook: LimitWeighted(100, tapped(hook, lambda _: 1)), lambda xs: xs),
    "zip_with_index": Case(
        lambda _: ZipWithIndex(), lambda xs: [(x, i) for i, x in enumerate(xs)], lambda pair: {pair[0]}, calls=False
    ),
    "take_while": Case(
        lambda hook: TakeWhile(tapped(hook, lambda x: x < 9)), lambda xs: taken_while(xs, 9, False), early=True
    ),
    "take_while_inclusive": Case(
        lambda hook: TakeWhile(tapped(hook, lambda x: x < 9), inclusive=True),
        lambda xs: taken_while(xs, 9, True),
        early=True,
    ),
    "take_until": Case(
        lambda hook: TakeUntil(tapped(hook, lambda x: x >= 9)), lambda xs: taken_while(xs, 9, True), early=True
    ),
    "drop_while": Case(
        lambda hook: DropWhile(lambda x: hook(x) or x < 9),
        lambda xs: [x for x in xs if x >= 9],
        demand=None,
        called=range(10),
    ),
    "drop_repeated": Case(
        lambda hook: DropRepeated(tapped(hook, lambda a, b: a // 3 == b // 3)),
        dropped_repeated,
        demand=None,
        called=range(1, 1_000),
    ),
    "scan": Case(
        lambda hook: Scan((0, ()), tapped(hook, lambda acc, x: (acc[0] + x, (x,)))), scanned, lambda r: set(r[1])
    ),
    "fused_with_scan": Case(
        lambda hook: fused(
            Filter(tapped(hook, lambda x: x % 3)),
            Scan((0, ()), lambda _, x: (x, (x,))),
            Map(lambda x: x),
            Scan((0, ()), added),
            Filter(lambda x: x[0] % 2 == 0),
        ),
        scan_scan,
        lambda r: set(r[1]),
        demand=None,
        supervised=False,  # each step brings its own attributes
    ),
    "collect": Case(
        lambda hook: Collect(tapped(hook, lambda x: (x,) if x % 3 else None)),
        lambda xs: [(x,) for x in xs if x % 3],
        demand=None,
    ),
    "fold": Case(lambda hook: Fold([], tapped(hook, lambda acc, x: [*acc, x])), lambda xs: [xs], demand=None),
    "reduce": Case(
        lambda hook: Reduce(tapped(hook, lambda acc, x: acc + x)),
        lambda xs: [sum(xs)] if xs else [],
        lambda _: set(),
        demand=None,
        fails_empty=True,
    ),
    "stateful_map": Case(
        lambda hook: StatefulMap(lambda: 0, tapped(hook, lambda n, x: (n + 1, (x, n)))),
        lambda xs: [(x, n) for n, x in enumerate(xs)],
        lambda r: {r[0]},
    ),
    "stateful_map_with_end": Case(
        lambda _: StatefulMap(lambda: 0, lambda n, x: (n + 1, (x,)), lambda n: ("closed", n)),
        lambda xs: [*((x,) for x in xs), ("closed", len(xs))],
        lambda r: set() if r[0] == "closed" else set(r),
        calls=False,
    ),
    "map_concat": Case(
        lambda hook: MapConcat(tapped(hook, repeated)), lambda xs: [x for x in xs for _ in range(x % 5)], demand=None
    ),
    "map_concat_generator": Case(
        lambda _: MapConcat(generator), lambda xs: [x for x in xs for _ in range(2)], calls=False
    ),
    "map_chunks": Case(
        lambda hook: MapChunks(lambda xs: [x for x in xs if hook(x) or x % 3 for _ in range(2)]),
        lambda xs: [x for x in xs if x % 3 for _ in range(2)],
        demand=None,
        supervised=False,
        loses_on_failure=True,  # the results of the whole chunk
    ),
    "intersperse": Case(
        lambda _: Intersperse(","), lambda xs: [y for x in xs for y in (",", x)][1:], calls=False, demand=lambda n: n
    ),
    "intersperse_around": Case(
        lambda _: Intersperse(",", start="[", end="]"),
        lambda xs: ["[", *[y for x in xs for y in (",", x)][1:], "]"],
        calls=False,
    ),
    "grouped": Case(lambda _: Grouped(3), windows(3, 3), calls=False, demand=lambda n: 3 * n),
    "grouped_by_one": Case(lambda _: Grouped(1), windows(1, 1), calls=False),
    "sliding": Case(lambda _: Sliding(3), windows(3, 1), calls=False, demand=lambda n: n + 2),
    "sliding_by_two": Case(lambda _: Sliding(3, 2), windows(3, 2), calls=False, demand=lambda n: 2 * n + 1),
    "sliding_with_gaps": Case(lambda _: Sliding(2, 5), windows(2, 5), calls=False, demand=lambda n: 5 * n),
    "log": Case(lambda hook: Log("laws", extract=hook, level=1), lambda xs: xs, calls=False),
    "watch_termination": Case(lambda _: WatchTermination(), lambda xs: xs, calls=False),
    "map_error": Case(lambda _: MapError(lambda error: error), lambda xs: xs, calls=False),
    "recover": Case(lambda _: Recover(lambda error: -1, on=KeyError), lambda xs: xs, calls=False),
}
CALLING = [name for name, case in CASES.items() if case.calls]
SUPERVISED = [name for name in CALLING if CASES[name].supervised]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_OK)
@given(data=st.data())
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, data):
    from tests.stages.laws import RUNS

    check_run(CASES[name], timeless, data.draw(RUNS))


@pytest.mark.parametrize("name", CALLING)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
def test_results_before_an_exception_go_out_first(timeless, name, sizes, at):
    check_user_error(CASES[name], timeless, sizes, at, ValueError)


@pytest.mark.parametrize("name", CALLING)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
def test_stop_iteration_of_user_code_is_an_error_like_any_other(timeless, name, sizes, at):
    check_user_error(CASES[name], timeless, sizes, at, StopIteration)


@pytest.mark.parametrize("name", SUPERVISED)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
def test_resume_leaves_out_the_element_that_raised(timeless, name, sizes, at):
    check_resume(CASES[name], timeless, sizes, at)
