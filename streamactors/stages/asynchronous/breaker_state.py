"""The rules of a circuit breaker: a pure state machine.

    closed --max_failures in a row--> open --reset time--> half-open --trial succeeds--> closed
                                       ^----------------------trial fails----------------'

Owner: CircuitBreaker, which holds a lock around `step`. The states and their moves are those of Akka's CircuitBreaker. An outcome carries
the epoch in which its call was admitted: after a move, the outcomes of older calls change nothing."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias


class CircuitState(enum.Enum):
    """What a circuit breaker does with a call."""

    CLOSED = "closed"  # makes it, and counts failures in a row
    OPEN = "open"  # refuses it, until the reset time
    HALF_OPEN = "half-open"  # one call is on trial; others are refused


MOVES: Final = {
    CircuitState.CLOSED: {CircuitState.OPEN},
    CircuitState.OPEN: {CircuitState.HALF_OPEN},
    CircuitState.HALF_OPEN: {CircuitState.OPEN, CircuitState.CLOSED},
}
"""The legal moves."""


@dataclass(frozen=True, slots=True)
class CircuitRules:
    """`reset_ms(n)`: how long the circuit stays open after `n` trials in succession have failed, in ms."""

    max_failures: int
    call_timeout_ms: float
    reset_ms: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Circuit:
    """The state of a circuit breaker. `failures`: in a row. `failed_trials`: since the circuit was closed. `until_ms`: the end of the open
    time, or of the trial."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    failed_trials: int = 0
    until_ms: float = 0.0
    epoch: int = 0


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Asked:
    """A call wants to begin."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A call of this epoch has succeeded."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A call of this epoch has failed, or lasted too long."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A call of this epoch was cancelled, so nobody knows how it would have ended."""

    epoch: int


Event: TypeAlias = Asked | Succeeded | Failed | Abandoned

# ── effects ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Admitted:
    """The call may begin; its outcome carries the epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The call must not begin. `retry_after_ms`: until the next trial; 0 while a trial runs."""

    retry_after_ms: float


@dataclass(frozen=True, slots=True)
class Moved:
    """The circuit has another state."""

    old: CircuitState
    new: CircuitState


Effect: TypeAlias = Admitted | Refused | Moved


def step(circuit: Circuit, event: Event, now_ms: float, rules: CircuitRules) -> tuple[Circuit, list[Effect]]:
    """Return the circuit after `event`, and what its owner must carry out."""
    match event:
        case Asked():
            return _asked(circuit, now_ms, rules)
        case Succeeded() | Failed() | Abandoned() if event.epoch != circuit.epoch:
            return circuit, []
        case Succeeded():
            if circuit.state is CircuitState.HALF_OPEN:
                closed = replace(circuit, failures=0, failed_trials=0, until_ms=0.0)
                return _moved(closed, CircuitState.CLOSED)
            return (replace(circuit, failures=0) if circuit.failures else circuit), []
        case Failed():
            if circuit.state is CircuitState.HALF_OPEN:
                return _open(circuit, now_ms, rules, circuit.failed_trials + 1)
            failures = circuit.failures + 1
            if failures < rules.max_failures:
                return replace(circuit, failures=failures), []
            return _open(replace(circuit, failures=failures), now_ms, rules, 0)
        case Abandoned():
            if circuit.state is CircuitState.HALF_OPEN:  # the next call is the trial
                return _moved(replace(circuit, until_ms=now_ms), CircuitState.OPEN)
            return circuit, []


def _asked(circuit: Circuit, now_ms: float, rules: CircuitRules) -> tuple[Circuit, list[Effect]]:
    if circuit.state is CircuitState.CLOSED:
        return circuit, [Admitted(circuit.epoch)]
    if now_ms < circuit.until_ms:
        return circuit, [Refused(circuit.until_ms - now_ms if circuit.state is CircuitState.OPEN else 0.0)]
    if circuit.state is CircuitState.HALF_OPEN:  # the trial lasts too long: it has failed
        opened, effects = _open(circuit, now_ms, rules, circuit.failed_trials + 1)
        return opened, [*effects, Refused(opened.until_ms - now_ms)]
    trial, effects = _moved(replace(circuit, until_ms=now_ms + rules.call_timeout_ms), CircuitState.HALF_OPEN)
    return trial, [*effects, Admitted(trial.epoch)]


def _open(circuit: Circuit, now_ms: float, rules: CircuitRules, failed_trials: int) -> tuple[Circuit, list[Effect]]:
    until_ms = now_ms + rules.reset_ms(failed_trials)
    return _moved(replace(circuit, failed_trials=failed_trials, until_ms=until_ms), CircuitState.OPEN)


def _moved(circuit: Circuit, new: CircuitState) -> tuple[Circuit, list[Effect]]:
    return replace(circuit, state=new, epoch=circuit.epoch + 1), [Moved(circuit.state, new)]
