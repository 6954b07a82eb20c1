"""The events of the windowed stage's state machine (`stage_state.py`): what has happened to the stage."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamactors.engine.marks.marks import Assigned, Key, PositionMark, Signal


class Timer(enum.Enum):
    """The timers of a windowed stage."""

    TURN = "rows that wait for a silent input need wait no longer"
    WALL = "processors are due by the wall clock"
    SILENCE = "the silence of a stream without partitions may close windows"
    LATE_ROWS = "late rows were dropped, and their number is to be logged"
    PATIENCE = "the last entries have waited long enough for the outlets to end first"


@dataclass(slots=True)
class Rows:
    """Rows have come."""

    rows: list[Any]


@dataclass(slots=True)
class Processed:
    """The tasks have processed rows; reported where rows of several inputs have turns, or if `pressed`: the changes since the last stop fill the
    memory of a task."""

    pressed: bool = False


@dataclass(slots=True)
class Failed:
    """A task has raised; the results before the failure go out first."""

    error: BaseException


@dataclass(slots=True)
class Passed:
    """A position mark has come: everything before it has arrived."""

    mark: PositionMark


@dataclass(slots=True)
class Arrived:
    """A signal has come. `following`: the assignments that come directly after an assignment."""

    signal: Signal
    following: Sequence[Assigned] = ()


@dataclass(slots=True)
class Gave:
    """Results that stem from no row were put into the queue. `key`: the input whose silence or end they stem from, None after a call by the wall clock."""

    key: Key | None = None


@dataclass(slots=True)
class Cut:
    """Stop at the next mark that is not before `target`."""

    target: PositionMark


@dataclass(slots=True)
class Committed:
    """The entries written last are committed."""


@dataclass(slots=True)
class HandedOver:
    """The last entries are part of the open transaction; the stage need not wait for its commit."""


@dataclass(slots=True)
class Restored:
    """The states of these tasks were read."""

    tasks: frozenset[Any]


@dataclass(slots=True)
class Revoking:
    """These inputs are about to be revoked. `report`: called with the positions up to which they were taken; None if no other stage holds their rows."""

    keys: Sequence[Key]
    report: Callable[[PositionMark], None] | None = None


@dataclass(slots=True)
class ReadAsked:
    """A reader has asked for a state that is committed."""


@dataclass(slots=True)
class Due:
    """A timer is due."""

    timer: Timer


@dataclass(slots=True)
class Completed:
    """The input has ended."""


@dataclass(slots=True)
class Ready:
    """Results were emitted as far as downstream asked; what comes next? Rows are counted.

    `asked`: the demand that is left. `room`: rows that may be processed at once. `most`: rows that may be under way to the stage.
    `waiting`: results or marks still wait for demand."""

    now_ms: float
    asked: int
    room: int
    most: int
    waiting: bool = False


Event: TypeAlias = (
    Rows
    | Processed
    | Failed
    | Passed
    | Arrived
    | Gave
    | Cut
    | Committed
    | HandedOver
    | Restored
    | Revoking
    | ReadAsked
    | Due
    | Completed
    | Ready
)
