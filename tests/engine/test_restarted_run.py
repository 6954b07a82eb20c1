"""A run that was aborted for a cause that a new one repairs begins again after its back-off, under the same materialized value."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from streamactors import AbruptTermination, ActorSystem, Flow, Keep, KillSwitches, RestartSettings, Sink, Source
from streamactors.clock import VirtualClock
from streamactors.engine.island.run import runs_of, when_idle
from streamactors.engine.logic import SourceLogic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import FLOW, NOT_USED, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.stages.bases.passing import PassingLogic

BACKOFF = RestartSettings("1s", "4s", random_factor=0, max_restarts=2, max_restarts_within="1m")


class Positions(GraphStage):
    """A source that can continue from a position, and never ends."""

    shape = SOURCE
    name = "positions"
    traits = StageTraits(emits_marks=True, endless=True)

    def create(self, attributes: Any) -> Any:
        return SourceLogic(), NOT_USED


class Committing(GraphStage):
    """Asks for restarts; its runs are failed from outside."""

    shape = FLOW
    handling = EXACT

    def __init__(self, *restarts: Any) -> None:
        self.traits = StageTraits(restarts=restarts)
        self.runs: list[_CommittingLogic] = []

    def create(self, attributes: Any) -> Any:
        logic = _CommittingLogic()
        self.runs.append(logic)
        return logic, NOT_USED

    def abort(self, error: BaseException, *, for_good: bool = False) -> None:
        """Fail the last run."""
        logic = self.runs[-1]
        run = logic.interpreter.island.run
        if not for_good and run.may_restart and not run.why_no_restart:
            run.restart_because = error
        logic.fail.invoke(error)


class _CommittingLogic(PassingLogic):
    def __init__(self) -> None:
        self.fail = self.async_callback(self.fail_stage)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def system(clock):
    with ActorSystem("restarted", clock=clock) as system:
        yield system


class Running:
    """A stream whose runs can be aborted."""

    def __init__(self, system: ActorSystem, *backoffs: Any) -> None:
        self.stage = Committing(*(backoffs or (BACKOFF,)))
        self.idle: list[int] = []
        graph = Source.from_stage(Positions()).via_mat(KillSwitches.single(), Keep.right)
        graph = graph.via(Flow.from_stage(self.stage)).watch_termination(Keep.both).to_mat(Sink.ignore(), Keep.both)
        self.evaluated: list[Any] = []
        (self.switch, self.watched), self.done = graph.map_materialized_value(self._note).run(system)
        when_idle(system, lambda: self.idle.append(len(self.stage.runs)))

    def _note(self, value: Any) -> Any:
        self.evaluated.append(value)
        return value


@pytest.fixture
def running(system) -> Running:
    return Running(system)


@pytest.mark.expects_log("lost")
def test_the_stream_begins_again_after_its_back_off_with_the_same_future_and_is_no_moment_idle(
    system, clock, running, caplog
):
    with caplog.at_level(logging.WARNING, "streamactors.engine"):
        running.stage.abort(ValueError("lost"))
        clock.advance("999ms")
        assert len(running.stage.runs) == 1
        assert not running.done.done()
        assert len(runs_of(system)) == 1  # the process that waits for its streams waits
        clock.advance("1ms")
    assert len(running.stage.runs) == 2
    assert len(runs_of(system)) == 1
    assert running.idle == []
    assert len(running.evaluated) == 1
    assert [each.getMessage() for each in caplog.records] == [
        "lost; restart 1 of at most 2 in a row of the run in 1000 ms"
    ]
    running.switch.shutdown()
    assert running.done.result(10) is None
    assert running.watched.result(10) is None
    clock.advance()
    assert running.idle == [2]


@pytest.mark.expects_log("lost")
def test_the_back_off_grows_and_a_long_run_begins_it_anew(clock, running):
    running.stage.abort(ValueError("lost"))
    clock.advance("1s")
    running.stage.abort(ValueError("lost"))
    clock.advance("1999ms")
    assert len(running.stage.runs) == 2
    clock.advance("1ms")
    assert len(running.stage.runs) == 3
    clock.advance("61s")
    running.stage.abort(ValueError("lost again"))
    clock.advance("1s")
    assert len(running.stage.runs) == 4


@pytest.mark.expects_log("lost")
def test_the_stream_fails_with_the_cause_when_its_restarts_are_used_up(system, clock, running):
    for backoff in ("1s", "2s", "4s"):
        running.stage.abort(ValueError("lost"))
        clock.advance(backoff)
    error = running.done.exception(10)
    assert str(error) == "lost"
    assert error.__notes__ == ["the run was restarted 2 times in a row, which is the limit"]
    assert running.watched.exception(10) is error
    assert set(running.idle) == {3}
    assert not runs_of(system)


def test_another_failure_fails_the_stream_at_once(clock, running):
    running.stage.abort(ValueError("wrong"), for_good=True)
    assert str(running.done.exception(10)) == "wrong"
    clock.advance("1h")
    assert len(running.stage.runs) == 1


@pytest.mark.parametrize("backoffs", [(None,), (BACKOFF, None)])
def test_a_stage_that_refuses_restarts_has_none(system, clock, backoffs):
    running = Running(system, *backoffs)
    running.stage.abort(ValueError("lost"))
    assert str(running.done.exception(10)) == "lost"


@pytest.mark.expects_log("lost")
def test_a_stop_during_the_back_off_completes_the_stream(system, clock, running):
    running.stage.abort(ValueError("lost"))
    clock.advance("1ms")
    running.switch.shutdown()
    assert running.done.result(10) is None
    clock.advance("1h")
    assert len(running.stage.runs) == 1
    assert not runs_of(system)


@pytest.mark.expects_log("lost")
def test_an_abort_by_the_user_during_the_back_off_fails_the_stream_with_that_error(clock, running):
    running.stage.abort(ValueError("lost"))
    clock.advance("1ms")
    running.switch.abort(ValueError("enough"))
    assert str(running.done.exception(10)) == "enough"


@pytest.mark.expects_log("lost")
def test_a_cancelled_future_stops_the_stream_during_the_back_off(system, clock, running):
    running.stage.abort(ValueError("lost"))
    clock.advance("1ms")
    assert running.done.cancel()
    assert running.done.cancelled()
    assert not runs_of(system)


def test_an_abort_after_a_stop_is_an_error(clock, running):
    # What was in flight at the stop was to be committed, and was not: the stop must not look like a success.
    next(iter(running.switch._restarted))(None)  # the run has heard of the stop, its stages have not yet
    running.stage.abort(ValueError("lost"))
    assert str(running.done.exception(10)) == "lost"


@pytest.mark.expects_log("lost")
def test_the_shutdown_of_the_system_ends_a_stream_that_waits(clock):
    with ActorSystem("short", clock=clock) as system:
        running = Running(system)
        running.stage.abort(ValueError("lost"))
        clock.advance("1ms")
    assert isinstance(running.done.exception(10), AbruptTermination)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda committed: committed.drop(0).to_mat(Sink.ignore(), Keep.right), "stage 'drop' remembers"),
        (lambda committed: committed.to_mat(Sink.to_list(), Keep.right), "the result of sink 'to_list' stems from all"),
        (
            lambda committed: committed.concat(Source.queue(4)).to_mat(Sink.ignore(), Keep.right),
            "source 'queue' cannot continue from a position",
        ),
    ],
)
def test_a_stream_that_would_not_continue_where_it_was_is_not_restarted_and_knows_why(system, make, why):
    stage = Committing(BACKOFF)
    make(Source.from_stage(Positions()).via(Flow.from_stage(stage))).run(system)
    (run,) = runs_of(system)
    assert why in run.why_no_restart
    assert not run.may_restart
