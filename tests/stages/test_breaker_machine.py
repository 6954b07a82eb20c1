"""The rules of a circuit breaker hold after any events at any times."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamactors.stages.asynchronous.breaker_state import (
    MOVES,
    Abandoned,
    Admitted,
    Asked,
    Circuit,
    CircuitRules,
    CircuitState,
    Event,
    Failed,
    Moved,
    Refused,
    Succeeded,
    step,
)

MOST, TIMEOUT_MS, RESET_MS, LONGEST_MS = 3, 50, 100, 400
RULES = CircuitRules(MOST, TIMEOUT_MS, lambda n: min(LONGEST_MS, RESET_MS * 2**n))


class Breaker(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.circuit = Circuit()
        self.now = 0.0
        self.running: list[tuple[int, CircuitState]] = []  # epoch and state in which calls were admitted
        self.in_a_row = 0  # failures that counted
        self.opened_at = 0.0
        self.trial_at: float | None = None

    def do(self, event: Event) -> list[object]:
        before = self.circuit
        self.circuit, effects = step(before, event, self.now, RULES)
        moves = [each for each in effects if isinstance(each, Moved)]
        for move in moves:
            assert move.new in MOVES[move.old]
            if move.new is CircuitState.OPEN:
                self.opened_at = self.now
            if move.new is not CircuitState.HALF_OPEN:
                self.trial_at = None
        states = [before.state, *(move.new for move in moves)]
        assert [move.old for move in moves] == states[:-1]
        assert self.circuit.state is states[-1]
        assert self.circuit.epoch == before.epoch + len(moves)
        return list(effects)

    @rule(ms=st.sampled_from([1, 49, 50, 51, 99, 100, 400]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule()
    def a_call_asks(self) -> None:
        before = self.circuit
        effects = self.do(Asked())
        answers = [each for each in effects if isinstance(each, Admitted | Refused)]
        assert len(answers) == 1
        if isinstance(answers[0], Admitted):
            assert before.state is not CircuitState.HALF_OPEN, "one call is on trial"
            if before.state is CircuitState.OPEN:
                assert self.now >= before.until_ms, "the circuit was open"
                assert self.circuit.state is CircuitState.HALF_OPEN
                self.trial_at = self.now
            self.running.append((answers[0].epoch, self.circuit.state))
        else:
            assert before.state is not CircuitState.CLOSED
            assert answers[0].retry_after_ms >= 0

    @rule(data=st.data(), kind=st.sampled_from([Succeeded, Failed, Abandoned]))
    def a_call_ends(self, data: st.DataObject, kind: type[Succeeded | Failed | Abandoned]) -> None:
        if not self.running:
            return
        epoch, state = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        before = self.circuit
        self.do(kind(epoch))
        if epoch != before.epoch:
            assert self.circuit == before, "the outcome of a call from before the last move changes nothing"
        elif state is CircuitState.HALF_OPEN:
            expected = {Succeeded: CircuitState.CLOSED, Failed: CircuitState.OPEN, Abandoned: CircuitState.OPEN}[kind]
            assert self.circuit.state is expected
            if kind is Failed:
                assert self.circuit.failed_trials == before.failed_trials + 1
                assert self.circuit.until_ms - self.now == min(LONGEST_MS, RESET_MS * 2**self.circuit.failed_trials)
            if kind is Abandoned:
                assert self.circuit.until_ms <= self.now, "the next call is the trial"
        elif kind is Succeeded:
            assert self.circuit.failures == 0
        elif kind is Failed:
            assert self.circuit.failures == before.failures + 1
            assert (self.circuit.state is CircuitState.OPEN) == (self.circuit.failures == MOST)

    @invariant()
    def a_closed_circuit_has_few_failures_and_no_failed_trial(self) -> None:
        if self.circuit.state is CircuitState.CLOSED:
            assert self.circuit.failures < MOST
            assert self.circuit.failed_trials == 0

    @invariant()
    def at_most_one_trial_counts(self) -> None:
        trials = [epoch for epoch, state in self.running if state is CircuitState.HALF_OPEN]
        assert trials.count(self.circuit.epoch) <= 1

    @invariant()
    def it_is_never_open_for_longer_than_the_longest_time(self) -> None:
        if self.circuit.state is CircuitState.OPEN:
            assert self.circuit.until_ms - self.opened_at <= LONGEST_MS


TestBreaker = Breaker.TestCase
TestBreaker.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_trial_that_never_ends_counts_as_failed_after_the_call_timeout():
    circuit = Circuit(CircuitState.OPEN, failures=MOST, until_ms=100)
    circuit, effects = step(circuit, Asked(), 100, RULES)
    assert effects[-1] == Admitted(circuit.epoch)
    circuit, effects = step(circuit, Asked(), 149, RULES)
    assert effects == [Refused(0.0)]
    circuit, effects = step(circuit, Asked(), 150, RULES)
    assert effects == [Moved(CircuitState.HALF_OPEN, CircuitState.OPEN), Refused(200)]
