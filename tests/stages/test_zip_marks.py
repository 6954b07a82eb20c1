"""Marks through a zip whose inputs come from one source: the last ones arrive, although one input ends before the other."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import EXACT, Broadcast, Flow, GraphDSL, Sink, Source, Zip
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Mark
from streamactors.engine.stage import FLOW, GraphStage
from tests.engine.test_ownership import OwnerStage


def what_comes_out(count: int, ways: list[Any], until: Any, actor_system: Any) -> list[Any]:
    """Return what comes out of a zip of one source of `count` numbers, each of whose inputs has its own way: pairs, marks and the end."""
    with GraphDSL() as g:
        fork, join = g.add(Broadcast(2)), g.add(Zip())
        owner = g.add(Sink.from_stage(OwnerStage()), keep=True)
        g.add(Source.range(0, count)) >> fork
        for number, way in enumerate(ways):
            fork.out(number) >> way >> join.in_(number)
        join >> owner
    (logic,) = g.to_runnable().run(actor_system)
    assert logic.claimed.wait(30)
    logic.handle.begin({}, until, skip_lost=False)
    return logic.future.result(30)


def pairs_of(seen: list[Any]) -> list[Any]:
    return [each for each in seen if isinstance(each, tuple)]


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize("until", [{"0": 4}, {"0": 9}])
def test_the_marks_in_front_of_the_end_pass_a_zip_of_one_source(longer: int, until: Any, actor_system: Any) -> None:
    """Cancelling the input that is still open would lose the mark in front of its end, and the source would never be done."""
    ways = [Flow.map(lambda n: n), Flow.map(lambda n: n).async_boundary()]
    seen = what_comes_out(10, ways if longer == 0 else ways[::-1], until, actor_system)
    assert pairs_of(seen) == [(n, n) for n in range(10)]
    at = seen.index(f"mark {until['0']}")
    assert (seen[at - 1], seen[at + 1]) == ((until["0"] - 1,) * 2, (until["0"],) * 2)
    assert seen[-1] == "end of input"


@pytest.mark.parametrize("shorter", [0, 1])
def test_a_mark_behind_the_last_result_passes_though_the_shorter_input_has_ended(
    shorter: int, actor_system: Any
) -> None:
    ways = [Flow.take(5), Flow.map(lambda n: n).async_boundary()]
    seen = what_comes_out(10, ways if shorter == 0 else ways[::-1], None, actor_system)
    assert pairs_of(seen) == [(n, n) for n in range(5)]
    assert "mark 5" in seen


class LateMarks(GraphStage):
    """Passes elements at once, and marks and the end when the island is idle."""

    shape = FLOW
    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, None]:
        return LateMarksLogic(), None


class LateMarksLogic(Logic):
    def on_pull(self, out: Connection) -> None:
        self.inlets[0].want(out.asked)

    def on_push(self, in_: Connection) -> None:
        self.outlets[0].push(in_.grab(self.outlets[0].asked))
        if self.outlets[0].asked:
            in_.want(self.outlets[0].asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.call_when_idle(lambda: self.outlets[0].mark(mark))

    def on_complete(self, in_: Connection) -> None:
        self.call_when_idle(self.complete_stage)


@pytest.mark.parametrize("late", [0, 1])
def test_the_last_mark_is_waited_for_at_the_input_that_is_still_open(late: int, actor_system: Any) -> None:
    ways = [Flow.from_stage(LateMarks()), Flow.map(lambda n: n)]
    seen = what_comes_out(5, ways if late == 0 else ways[::-1], None, actor_system)
    assert pairs_of(seen) == [(n, n) for n in range(5)]
    assert seen[-2:] == ["mark 5", "end of input"]
