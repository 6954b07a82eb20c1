"""The move of one replica to another data folder as a pure state machine: `step(move, event) -> (move, effects)` (KIP-113).

Owner: `FolderMoves`. Copying takes steps on a helper thread; what is asked meanwhile waits for the end of the step, because the step uses the copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

CLOSE: Final = 1 << 20
"""When at most this many bytes are left to copy, the data plane copies them and replaces the log. Appends wait meanwhile."""


class MovePhase(Enum):
    """Where a move is."""

    COPYING = "a step of the copy is under way"
    ENDING = "a step is under way, and the copy is not wanted any more"
    ENDED = "nothing is under way"


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a replica. `target` has the copy; `then` is where the replica is to go after the copy is dropped."""

    phase: MovePhase = MovePhase.ENDED
    target: Path | None = None
    then: Path | None = None


# --- events ---


@dataclass(frozen=True, slots=True)
class FolderRequested:
    """The replica is to be in a folder; None: where it is."""

    target: Path | None


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of the copy has ended, with this number of bytes left."""

    left: int


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step of the copy has failed."""


Event = FolderRequested | StepEnded | StepFailed


# --- effects ---


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin an empty copy in a folder."""

    target: Path


@dataclass(frozen=True, slots=True)
class Copy:
    """Do one step of the copy."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Let the copy take the place of the log."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove the copy."""


Effect = Begin | Copy | Replace | Discard
ENDED: Final = Move()


def step(move: Move, event: Event) -> tuple[Move, list[Effect]]:
    """Return the move after an event, and what is to be done, in order."""
    match event:
        case FolderRequested(target):
            return _asked(move, target)
        case StepEnded(left) if move.phase is MovePhase.COPYING:
            return (ENDED, [Replace()]) if left <= CLOSE else (move, [Copy()])
        case StepFailed() if move.phase is MovePhase.COPYING:
            return ENDED, [Discard()]
        case StepEnded() | StepFailed() if move.phase is MovePhase.ENDING:
            begun, effects = _begun(move.then)
            return begun, [Discard(), *effects]
    return move, []


def _asked(move: Move, target: Path | None) -> tuple[Move, list[Effect]]:
    if move.phase is MovePhase.ENDED:
        return _begun(target)
    if move.phase is MovePhase.COPYING and target == move.target:
        return move, []
    return replace(move, phase=MovePhase.ENDING, then=target), []


def _begun(target: Path | None) -> tuple[Move, list[Effect]]:
    return (ENDED, []) if target is None else (Move(MovePhase.COPYING, target), [Begin(target), Copy()])
