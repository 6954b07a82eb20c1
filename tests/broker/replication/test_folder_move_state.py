"""The move of a replica between two data folders: no history leaves a copy behind, and the last wish is carried out."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamactors.broker.replication.folder_move_state import (
    CLOSE,
    Begin,
    Copy,
    Discard,
    Effect,
    Event,
    FolderRequested,
    Move,
    MovePhase,
    Replace,
    StepEnded,
    StepFailed,
    step,
)

A, B, C = Path("/a"), Path("/b"), Path("/c")


class MoveMachine(RuleBasedStateMachine):
    """A replica in one of three folders, its copy, and the step of the copy that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.move = Move()
        self.at = A
        self.copy: Path | None = None
        self.stepping = False
        self.wish = A

    def feed(self, event: Event) -> None:
        self.move, effects = step(self.move, event)
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Begin(target):
                assert self.copy is None, "one copy at a time"
                assert target != self.at
                self.copy = target
            case Copy():
                assert self.copy is not None
                assert not self.stepping, "one step at a time"
                self.stepping = True
            case Replace():
                assert self.copy is not None
                assert not self.stepping, "a step must not use the copy"
                self.at, self.copy = self.copy, None
            case Discard():
                assert self.copy is not None
                assert not self.stepping, "a step must not use the copy"
                self.copy = None

    @rule(folder=st.sampled_from([A, B, C]))
    def ask(self, folder: Path) -> None:
        self.wish = folder
        self.feed(FolderRequested(None if folder == self.at else folder))

    @precondition(lambda self: self.stepping)
    @rule(left=st.sampled_from([0, CLOSE, CLOSE + 1, 10 * CLOSE]))
    def end_step(self, left: int) -> None:
        self.stepping = False
        self.feed(StepEnded(left))

    @precondition(lambda self: self.stepping)
    @rule()
    def fail_step(self) -> None:
        self.stepping = False
        if self.move.phase is MovePhase.COPYING:
            self.wish = self.at  # a move that fails is not tried again
        self.feed(StepFailed())

    @invariant()
    def a_copy_is_being_made_or_there_is_none(self) -> None:
        assert (self.copy is not None) == self.stepping == (self.move.phase is not MovePhase.ENDED)

    @invariant()
    def the_last_wish_is_under_way_or_has_come_true(self) -> None:
        if self.move.phase is MovePhase.COPYING:
            assert self.copy == self.move.target == self.wish
        elif self.move.phase is MovePhase.ENDING:
            assert (self.move.then or self.at) == self.wish
        else:
            assert self.at == self.wish


TestMoves = MoveMachine.TestCase
