"""Per-element stages keep the laws of every operator: any chunking, demand and end, marks included."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from streamactors import Sink, Source
from streamactors.engine.element.graph_stage_logic import GraphStageLogic
from streamactors.engine.marks.marks import EXACT, EXACT_MEMORY, Handling
from streamactors.engine.stage import Stage
from streamactors.errors import ProtocolError
from tests.stages.conftest import timeless
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, check_run, check_user_error

__all__ = ["timeless"]


class Passes(GraphStageLogic):
    """The default `on_pull`."""

    def on_push(self, inlet):
        self.push(self.out, self.grab(inlet))


class PullsByIndex(Passes):
    def on_pull(self, outlet):
        self.pull(self.inlets[0])


class PullsByName(Passes):
    def on_pull(self, outlet):
        self.pull(self.in_)


class PullsAndCounts(Passes):
    pulls = 0

    def on_pull(self, outlet):
        self.pulls += 1
        self.pull(self.in_)


class Odd(GraphStageLogic):
    """Drops some, pulling again by itself."""

    def on_push(self, inlet):
        element = self.grab(inlet)
        if element % 3:
            self.push(self.out, element)
        else:
            self.pull(inlet)


class Repeats(GraphStageLogic):
    """Emits an element up to three times; asks for the next when that is through, or at once when there is nothing to emit."""

    def on_push(self, inlet):
        element = self.grab(inlet)
        self.emit_multiple(self.out, [element] * (element % 4), self.ask)

    def ask(self):
        if not self.has_been_pulled(self.in_):
            self.try_pull(self.in_)

    def on_pull(self, outlet):
        self.ask()


class ReadsPairs(GraphStageLogic):
    """Reads two at a time; an odd one at the end comes alone."""

    def pre_start(self):
        self.keep_going(True)
        self.read_n(self.in_, 2, self.pair, self.rest)

    def pair(self, elements):
        self.emit(self.out, tuple(elements), self.again)

    def again(self):
        self.read_n(self.in_, 2, self.pair, self.rest)

    def rest(self, elements):
        if elements:
            self.emit(self.out, tuple(elements))
        self.complete_stage()

    def on_pull(self, outlet):
        pass

    def on_downstream_finish(self, outlet, cause):
        self.fail_stage(cause)


class ReadsPairsAndForgetsTheEnd(ReadsPairs):
    """As a stage of Akka Streams: `on_upstream_finish` follows the function for the end."""

    def pre_start(self):
        self.again()

    def rest(self, elements):
        if elements:
            self.emit(self.out, tuple(elements))

    def on_downstream_finish(self, outlet, cause):
        self.cancel_stage(cause)


class ReadsPairsAndEndsByItself(ReadsPairsAndForgetsTheEnd):
    """Without a function for the end."""

    def again(self):
        self.read_n(self.in_, 2, self.pair)

    def on_upstream_finish(self, inlet):
        self.emit(self.out, "end", self.complete_stage)


class Five(GraphStageLogic):
    """Completes from within on_push."""

    left = 5

    def on_push(self, inlet):
        self.push(self.out, self.grab(inlet))
        self.left -= 1
        if not self.left:
            self.complete_stage()


class ClosesItsOutlet(GraphStageLogic):
    """Completes the outlet alone and continues to read."""

    left = 5

    def on_push(self, inlet):
        element = self.grab(inlet)
        if self.left:
            self.left -= 1
            self.push(self.out, element)
            if not self.left:
                self.complete(self.out)
                assert self.is_closed(self.out)
                assert not self.is_available(self.out)
                self.pull(inlet)
        else:
            self.pull(inlet)


def staged(made: Any, declared: Handling) -> Any:
    class Custom(Stage[Any, Any]):
        handling = declared
        name = made.__name__.lower()

        def logic(self) -> Any:
            return made()

    return Custom()


def pairs(xs: list[int]) -> list[Any]:
    return [tuple(xs[i : i + 2]) for i in range(0, len(xs), 2)]


CASES = {
    "passes": Case(lambda _: staged(Passes, EXACT)),
    "pulls_by_index": Case(lambda _: staged(PullsByIndex, EXACT)),
    "pulls_by_name": Case(lambda _: staged(PullsByName, EXACT)),
    "pulls_and_counts": Case(lambda _: staged(PullsAndCounts, EXACT)),
    "odd": Case(lambda _: staged(Odd, EXACT), lambda xs: [x for x in xs if x % 3], demand=None),
    "repeats": Case(lambda _: staged(Repeats, EXACT), lambda xs: [x for x in xs for _ in range(x % 4)], demand=None),
    "five": Case(lambda _: staged(Five, EXACT_MEMORY), lambda xs: xs[:5], early=True),
}
SLOW_OK = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=80, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, run):
    check_run(CASES[name], timeless, run)


@pytest.mark.parametrize("made", [ReadsPairs, ReadsPairsAndForgetsTheEnd])
@settings(max_examples=80, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_reading_pairs_gives_pairs(timeless, made, run):
    # as in Akka Streams, `on_upstream_finish` follows the function for the end; it did not, and the second stage stood still
    steps, _, requests, max_chunk = run
    without_marks = [
        step for step in steps if step[0] not in ("mark", "signal")
    ]  # it grabs and holds: it would have to keep them itself
    check_run(
        Case(lambda _: staged(made, EXACT), pairs, demand=None),
        timeless,
        (without_marks, "complete", requests, max_chunk),
    )


def test_a_reader_without_a_function_for_the_end_leaves_it_to_the_stage(timeless):
    source = Source.range(5).via(staged(ReadsPairsAndEndsByItself, EXACT))
    assert source.run_with(Sink.to_list(), timeless).result(30) == [(0, 1), (2, 3), "end"]


def test_a_stage_may_complete_its_outlet_and_go_on_reading(timeless):
    with Bench(timeless, staged(ClosesItsOutlet, EXACT_MEMORY)) as bench:
        bench.request(9)
        bench.send(*range(4))
        bench.send(*range(4, 20))
        assert (bench.received, bench.end) == ([0, 1, 2, 3, 4], "completed")
        assert len(bench.pushed) == 20, "all was read"
        assert not bench.stopped
        bench.complete()
        assert bench.stopped


def test_an_on_pull_that_only_pulls_is_recognised_and_no_other(timeless):
    expected = {
        Passes: True,
        PullsByIndex: True,
        PullsByName: True,
        PullsAndCounts: False,
        ReadsPairs: False,
        Odd: True,
    }
    for logic, passive in expected.items():
        with Bench(timeless, staged(logic, EXACT)) as bench:
            assert bench.logic.user.pulls_only() is passive, logic
            assert bench.logic.user.out.passive is passive

    class OwnPull(PullsByIndex):
        def pull(self, inlet):
            super().pull(inlet)

    with Bench(timeless, staged(OwnPull, EXACT)) as bench:
        assert not bench.logic.user.out.passive


def test_an_on_pull_of_ones_own_is_called_for_each_element(timeless):
    with Bench(timeless, staged(PullsAndCounts, EXACT)) as bench:
        bench.request(10)
        bench.send(*range(7))
        assert bench.received == list(range(7))
        assert bench.logic.user.pulls == 8


def test_a_handler_set_later_takes_the_place_of_the_recognised_one(timeless):
    calls = []

    class Changes(PullsByIndex):
        def on_push(self, inlet):
            element = self.grab(inlet)
            if element == 2:
                self.set_handler(self.out, self.counted)
            self.push(self.out, element)

        def counted(self, outlet):
            calls.append(outlet)
            self.pull(self.in_)

    with Bench(timeless, staged(Changes, EXACT)) as bench:
        bench.request(10)
        bench.send(*range(6))
        assert bench.received == list(range(6))
        assert len(calls) == 4


def test_grabbing_twice_or_after_pulling_is_an_error(timeless):
    class GrabsTwice(GraphStageLogic):
        def on_push(self, inlet):
            self.grab(inlet)
            self.grab(inlet)

    class GrabsLate(GraphStageLogic):
        def on_push(self, inlet):
            self.pull(inlet)
            assert not self.is_available(inlet)
            self.grab(inlet)

    for logic in (GrabsTwice, GrabsLate):
        with Bench(timeless, staged(logic, EXACT)) as bench:
            bench.request(1)
            bench.send(1, 2)
            assert isinstance(bench.end, ProtocolError)
            assert "already empty input port" in str(bench.end)


def test_a_second_push_within_a_slice_fails_the_stage_after_the_first_one_went_out(timeless):
    class PushesTwice(GraphStageLogic):
        def on_push(self, inlet):
            element = self.grab(inlet)
            self.push(self.out, element)
            if element == 2:
                self.push(self.out, element)

    with Bench(timeless, staged(PushesTwice, EXACT)) as bench:
        bench.request(10)
        bench.send(*range(5))
        assert bench.received == [0, 1, 2]
        assert isinstance(bench.end, ProtocolError)


def test_results_before_an_exception_go_out_first(timeless):
    def calls(hook: Any) -> Any:
        class Calls(GraphStageLogic):
            def on_push(self, inlet):
                element = self.grab(inlet)
                hook(element)
                self.push(self.out, element)

        return staged(Calls, EXACT)

    for kind in (ValueError, StopIteration):
        for at in range(6):
            check_user_error(Case(calls), timeless, [2, 3, 1], at, kind)
