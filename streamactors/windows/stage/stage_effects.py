"""The effects of the windowed stage's state machine (`stage_state.py`): what its carrier (`window_logic.py`) must do, in the order given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamactors.engine.marks.marks import Key, Mark, Position, PositionMark
from streamactors.windows.stage.stage_events import Event, Timer


@dataclass(slots=True)
class Process:
    """Have the tasks process rows, and put their results into the queue. Then report `Processed` or `Failed`."""

    rows: list[Any]


@dataclass(slots=True)
class Give:
    """Put the results of an input's silence into the queue, or with `silent_ms` of None those of its end; then report `Gave` if there are any.

    `owners`: the inputs of the task with the epochs of their assignments. Nothing is put if the next owner of one must emit the results.
    `task` of None: all tasks."""

    key: Key
    owners: Mapping[Key, int]
    task: Any
    silent_ms: int | None = None


@dataclass(slots=True)
class PutMark:
    """Put a mark into the queue, after the results so far."""

    mark: Mark


@dataclass(slots=True)
class NewTask:
    """Make a task without state."""

    task: Any


@dataclass(slots=True)
class DropTask:
    """Close a task, without results. `revoked`: the partition that was revoked; None if it begins again here."""

    task: Any
    revoked: Any = None


@dataclass(slots=True)
class Restore:
    """Read the states of these partitions; then report `Restored`."""

    partitions: list[Any]


@dataclass(slots=True)
class Install:
    """Take a task that was restored."""

    task: Any


@dataclass(slots=True)
class Write:
    """Write the entries that changed up to the mark `at`; then report `Committed` or `HandedOver`. `ended`: they are the last ones.

    Readers that wait are served from this state; `Answer` tells them."""

    at: PositionMark
    ended: bool


@dataclass(slots=True)
class Hurry:
    """Ask for the next cut at once."""


@dataclass(slots=True)
class LookUp:
    """Find what the waiting readers have asked for."""


@dataclass(slots=True)
class Answer:
    """Give the readers what was found."""


@dataclass(slots=True)
class ReadInOrder:
    """Rows of this source are held: the source must call before a partition is revoked."""

    source: Any


@dataclass(slots=True)
class GiveBack:
    """The rows of an input from this position on were dropped; its source reads them again."""

    key: Key
    place: Position


@dataclass(slots=True)
class HoldBack:
    """Pause these inputs, because many of their rows are held, and resume all others."""

    keys: frozenset[Key]


@dataclass(slots=True)
class ReportPlaces:
    """Report up to which positions inputs were taken."""

    report: Callable[[PositionMark], None]
    places: PositionMark


@dataclass(slots=True)
class Schedule:
    """Set a timer."""

    timer: Timer
    delay_ms: float


@dataclass(slots=True)
class CallByWall:
    """Call the processors that are due by the wall clock."""


@dataclass(slots=True)
class LookForSilence:
    """Close the windows of a stream without partitions that has been silent for long enough."""


@dataclass(slots=True)
class HoldInlet:
    """Take nothing: elements, marks and the end wait in the inlet."""


@dataclass(slots=True)
class TakeRows:
    """Take the next items; `most`: number of rows to ask for, 0 asks for none."""

    most: int


@dataclass(slots=True)
class EndTasks:
    """Put the results of the end into the queue: the stream has no marks, so its end is the end of the input."""


@dataclass(slots=True)
class CompleteOutlets:
    """Complete the outlets; the stage continues without them."""


@dataclass(slots=True)
class CompleteStage:
    """Complete the stage."""


@dataclass(slots=True)
class FailStage:
    """Fail the stage."""

    error: BaseException


@dataclass(slots=True)
class Then:
    """Step this event after the effects before."""

    event: Event


@dataclass(slots=True)
class Again:
    """Emit results as far as downstream asks; then step `Ready` again."""


Effect: TypeAlias = (
    Process
    | Give
    | PutMark
    | NewTask
    | DropTask
    | Restore
    | Install
    | Write
    | Hurry
    | LookUp
    | Answer
    | ReadInOrder
    | GiveBack
    | HoldBack
    | ReportPlaces
    | Schedule
    | CallByWall
    | LookForSilence
    | HoldInlet
    | TakeRows
    | EndTasks
    | CompleteOutlets
    | CompleteStage
    | FailStage
    | Then
    | Again
)
