"""monitor: what a stream does at one place, to be asked from any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import propagate_failure
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.passing import PassingLogic


@dataclass(frozen=True)
class Initialized:
    """The stream has started, and no element has passed."""


@dataclass(frozen=True)
class Received:
    """The last element that has passed."""

    element: Any


@dataclass(frozen=True)
class Failed:
    """The stream has failed."""

    error: BaseException


@dataclass(frozen=True)
class Finished:
    """The stream has completed, or downstream has cancelled."""


FlowState = Initialized | Received | Failed | Finished


class FlowMonitor:
    """Materialized by `monitor`. `state` and `elements` may be read on any thread."""

    def __init__(self) -> None:
        self.state: FlowState = Initialized()
        """Initialized(), Received(element), Finished() or Failed(error)."""
        self.elements = 0
        """The number of elements that have passed."""

    def __repr__(self) -> str:
        return f"<FlowMonitor {self.state} after {self.elements} elements>"


class Monitor(Stage[In, In]):
    """The stage of `Source.monitor`."""

    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        monitor = FlowMonitor()
        return _MonitorLogic(monitor), monitor


class _MonitorLogic(PassingLogic):
    def __init__(self, monitor: FlowMonitor) -> None:
        super().__init__()
        self._monitor = monitor

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            self._monitor.elements += len(chunk)
            self._monitor.state = Received(chunk[-1])
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)

    def complete_stage(self) -> None:
        self._monitor.state = Finished()
        super().complete_stage()

    def fail_stage(self, error: BaseException) -> None:
        self._monitor.state = Failed(error)
        super().fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        super().on_cancel(out, cause)
        error = (self.attributes.cancellation or propagate_failure)(cause)
        self._monitor.state = Finished() if error is None else Failed(error)
