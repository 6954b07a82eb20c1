"""Random histories of the windowed stage: thousands of orders of rows, marks, demand, cuts, commits, silence, restores and the end.

`stage_world.py` has the laws, each by its name."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from streamactors.windows.stage.stage_state import MOVES, Phase
from streamactors.windows.state.changelogs import MarksPass
from tests.windows.stage.stage_world import StageWorld, key_of, place_of

MODES = [None, *MarksPass]
HISTORIES = 700


def moved(world: StageWorld, dice: random.Random) -> None:
    """Do one random thing."""
    key = dice.choice(world.keys)
    match dice.randrange(14):
        case 0 | 1 | 2 if not world.has_ended:
            world.send(key, [dice.choice(("keeps", "closes")) for _ in range(dice.randrange(4))])
        case 3 | 4:
            world.ask(dice.choice((1, 2, 10)))
        case 5:
            world.cut()
        case 6:
            world.go_on_to_the_furthest()
        case 7 | 8:
            world.commit()
        case 9 if not world.has_ended:
            world.silence(key)
        case 10:
            world.wall()
        case 11:
            world.restore()
        case 12:
            world.fire()
        case 13 if dice.random() < 0.1:
            world.end(by_itself=dice.random() < 0.5)
        case _:
            pass


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("marks_pass", MODES, ids=lambda mode: "none" if mode is None else mode.name)
def test_every_history_keeps_the_laws_and_ends(marks_pass: MarksPass | None, topics: int) -> None:
    for seed in range(HISTORIES):
        dice = random.Random(seed)
        world = StageWorld(
            marks_pass,
            topics=topics,
            partitions=dice.choice((1, 2)),
            keeps=dice.choice((0, 1, 3)),
            limit=dice.choice((1, 4)),
        )
        try:
            for _ in range(dice.randrange(5, 60)):
                moved(world, dice)
            world.finish()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("marks_pass", MODES, ids=lambda mode: "none" if mode is None else mode.name)
def test_a_failure_comes_after_the_results_before_it_and_nothing_passes_it(marks_pass: MarksPass | None) -> None:
    for seed in range(200):
        dice = random.Random(seed)
        world = StageWorld(marks_pass, topics=dice.choice((1, 2)), keeps=dice.choice((0, 1)))
        world.fails_at = dice.randrange(12)
        for _ in range(40):
            moved(world, dice)
        world.settle()
        if world.failed:
            assert isinstance(world.failure, ValueError)
            assert world.state.phase is Phase.FAILED
            taken = set(map(place_of, world.taken))
            for row in world.sent:
                done = world.done_at.get(key_of(row), (0, 0))[1]
                assert row.context.offset >= done or place_of(row) in taken, "no position passes a row that has failed"


@pytest.mark.parametrize("marks_pass", list(MarksPass))
def test_a_partition_that_goes_and_comes_again_finds_its_state(marks_pass: MarksPass) -> None:
    for seed in range(200):
        dice = random.Random(seed)
        world = StageWorld(marks_pass, partitions=2, keeps=0)
        for _ in range(30):
            if dice.random() < 0.1 and not world.has_ended:
                world.revoke(dice.choice(world.keys))
            else:
                moved(world, dice)
        world.finish()


def test_every_phase_but_the_last_ones_can_be_left() -> None:
    assert set(MOVES) == set(Phase)
    assert {phase for phase in Phase if not MOVES[phase]} == {Phase.OVER, Phase.FAILED}


class Histories(RuleBasedStateMachine):
    """The same world, moved by hypothesis, which shortens a history that breaks a law."""

    @initialize(
        marks_pass=st.sampled_from(MODES),
        topics=st.integers(1, 2),
        keeps=st.integers(0, 3),
        limit=st.sampled_from((1, 4)),
    )
    def begin(self, marks_pass: MarksPass | None, topics: int, keeps: int, limit: int) -> None:
        self.world = StageWorld(marks_pass, topics=topics, keeps=keeps, limit=limit)

    @precondition(lambda self: not self.world.has_ended)
    @rule(which=st.integers(0, 1), values=st.lists(st.sampled_from(("keeps", "closes")), max_size=3))
    def rows_come(self, which: int, values: list[str]) -> None:
        self.world.send(self.world.keys[which % len(self.world.keys)], values)

    @rule(count=st.sampled_from((1, 3, 100)))
    def downstream_asks(self, count: int) -> None:
        self.world.ask(count)

    @rule()
    def the_run_asks_for_a_cut(self) -> None:
        self.world.cut()

    @rule()
    def the_entries_are_committed(self) -> None:
        self.world.commit()

    @precondition(lambda self: not self.world.has_ended)
    @rule(which=st.integers(0, 1))
    def an_input_is_silent(self, which: int) -> None:
        self.world.silence(self.world.keys[which % len(self.world.keys)])

    @rule()
    def the_wall_clock_calls(self) -> None:
        self.world.wall()

    @rule()
    def a_state_is_read(self) -> None:
        self.world.restore()

    @rule()
    def a_timer_is_due(self) -> None:
        self.world.fire()

    @rule(by_itself=st.booleans())
    def the_input_ends(self, by_itself: bool) -> None:
        self.world.end(by_itself=by_itself)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
