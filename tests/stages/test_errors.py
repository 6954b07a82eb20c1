"""Operators that meet failures."""

from __future__ import annotations

import pytest

from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.materializing.materializer import materialize
from streamactors.errors import BuildError
from streamactors.stages.errors.recovering import MapError, OnErrorComplete, Recover, RecoverWith, RecoverWithRetries
from streamactors.stages.sinks.values import ToList
from streamactors.stages.sources.iterables import FromIterable
from streamactors.stages.transform.mapping import Map
from tests.engine.graphs import chain
from tests.stages.harness import Bench

BROKEN = ValueError("broken")


def failing(*elements):
    """A source that emits elements and then fails."""

    def raise_at_zero(x):
        if x is None:
            raise BROKEN
        return x

    return chain(FromIterable([*elements, None]), Map(raise_at_zero))


def ran(system, *stages):
    return materialize(chain(*stages, ToList()), system).result(30)


def test_map_error_changes_the_error_and_leaves_others_alone(timeless):
    with Bench(timeless, MapError(lambda error: KeyError(str(error)))) as bench:
        bench.request(1)
        bench.fail(BROKEN)
        assert repr(bench.end) == "KeyError('broken')"
    with Bench(timeless, MapError(lambda error: KeyError(), on=TypeError)) as bench:
        bench.fail(BROKEN)
        assert bench.end is BROKEN


def test_map_error_that_returns_no_exception_says_so(timeless):
    with Bench(timeless, MapError(lambda error: "text")) as bench:
        bench.fail(BROKEN)
        assert isinstance(bench.end, TypeError)
        assert "map_error expects its function to return an exception, got 'text'" in str(bench.end)
        assert bench.end.__cause__ is BROKEN


def test_recover_emits_one_last_element_when_there_is_demand_and_completes(timeless):
    with Bench(timeless, Recover(lambda error: str(error))) as bench:
        bench.request(2)
        bench.send(1, 2)
        bench.fail(BROKEN)
        assert (bench.received, bench.end) == ([1, 2], None)
        bench.request(1)
        assert (bench.received, bench.end) == ([1, 2, "broken"], "completed")


def test_recover_may_emit_none(timeless):
    assert ran(timeless, failing(1), Recover(lambda _: None)) == [1, None]


def test_recover_whose_function_raises_fails_with_that_error_caused_by_the_first(timeless):
    def worse(error):
        raise RuntimeError("worse")

    with Bench(timeless, Recover(worse)) as bench:
        bench.request(1)
        bench.fail(BROKEN)
        assert isinstance(bench.end, RuntimeError)
        assert bench.end.__cause__ is BROKEN


@pytest.mark.parametrize(
    ("on", "meets"),
    [
        (ValueError, True),
        (Exception, True),
        (KeyError, False),
        ((KeyError, ValueError), True),
        ((KeyError, TypeError), False),
        (lambda error: "broken" in str(error), True),
        (lambda error: False, False),
    ],
)
def test_on_tells_which_errors_an_operator_is_for(timeless, on, meets):
    with Bench(timeless, OnErrorComplete(on)) as bench:
        bench.fail(BROKEN)
        assert bench.end == "completed" if meets else bench.end is BROKEN


@pytest.mark.parametrize("on", [3, int, (ValueError, int), "ValueError"])
def test_an_on_that_is_no_error_is_refused_where_it_was_written(on):
    with pytest.raises(BuildError, match="on must be an exception class"):
        Recover(lambda error: 1, on=on)


def test_recover_with_goes_on_with_another_source(timeless):
    assert ran(timeless, failing(1, 2), RecoverWith(lambda _: FromIterableSource(3, 4))) == [1, 2, 3, 4]


def FromIterableSource(*elements):
    return StageModule(FromIterable(list(elements)))


def test_recover_with_meets_the_failure_of_the_other_source_again(timeless):
    sources = iter([failing(2), failing(3, 4), FromIterableSource(5)])
    assert ran(timeless, failing(1), RecoverWith(lambda _: next(sources))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("attempts", "result"), [(0, None), (1, None), (2, [1, 2, 2, 9][:3])])
def test_recover_with_retries_gives_up_after_so_many(timeless, attempts, result):
    made = []

    def again(error):
        made.append(error)
        return failing(2)

    done = materialize(chain(failing(1), RecoverWithRetries(attempts, again), ToList()), timeless)
    assert done.exception(30) is BROKEN
    assert len(made) == attempts


def test_recover_with_a_function_that_returns_no_source_says_so(timeless):
    done = materialize(chain(failing(1), RecoverWith(lambda _: [1, 2]), ToList()), timeless)
    with pytest.raises(BuildError, match="recover_with expects its function to return a Source, got list"):
        done.result(30)


def test_recover_with_cancels_the_other_source_with_downstream(timeless):
    inner = []

    class Endless:
        def __iter__(self):
            try:
                while True:
                    yield 1
            finally:
                inner.append("closed")

    with Bench(timeless, RecoverWith(lambda _: StageModule(FromIterable(Endless())))) as bench:
        bench.request(3)
        bench.fail(BROKEN)
        assert bench.received == [1, 1, 1]
        bench.cancel()
        assert inner == ["closed"]
        assert bench.stopped
