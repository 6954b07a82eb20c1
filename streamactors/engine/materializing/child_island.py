"""The worker's side of an island in a worker process: runs the stages between two halves that speak with the parent.

Owner: the worker process, which has nothing else to do. Its main thread reads frames and posts them to the island; the island sends, and
may block while the socket is full: the parent always reads. When the parent closes the socket, the process ends at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.actors.system import ActorSystem
from streamactors.actors.workers.channel import Channel
from streamactors.actors.workers.chunks import chunk_of
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.codec import loads
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_left
from streamactors.engine.boundary import BoundaryInLogic
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.run import runs_of
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Key, Mark, PositionMark, Signal
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.stage import SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.workers.encoding_out import EncodingOutLogic
from streamactors.engine.workers.looks import looked_at
from streamactors.engine.workers.wire import (
    BEGIN,
    CANCEL,
    CHUNK,
    CREDIT,
    END,
    FAILURE,
    LOOK,
    LOOKED,
    MARK,
    READY,
    SIGNAL,
    TRACE,
    described,
    frame_of,
    made_again,
)
from streamactors.tracing import switch
from streamactors.tracing.place import Place

_EPOCH = 1


@dataclass(frozen=True, slots=True)
class Numbered(Signal):
    """A lifecycle signal of the parent, known here by its number."""

    number: int = 0


class _Parent:
    """The way to the parent, and what the two halves share."""

    def __init__(self, channel: Channel, label: str) -> None:
        self._channel = channel
        self._sending = threading.Lock()  # the island, and the main thread when the parent wants to look
        self.label = label
        self.failure: BaseException | None = None  # of the input
        self.marks = False
        self.in_window: int | None = None
        self.credit = 0
        self.key: Key = (None, 0)  # of the marks that stand for the parent's

    def send(self, kind: int, buffers: Sequence[Buffer] = (), count: int = 0, number: int = 0) -> None:
        """Send a frame. The process ends if the parent has ended."""
        try:
            with self._sending:
                self._channel.send(frame_of(kind, list(buffers), count, number))
        except OSError:
            os._exit(0)


class _Input(GraphStage):
    """The source of the stages: what the parent sends."""

    shape = SOURCE
    name = "input of the worker process"
    handling = EXACT

    def __init__(self, parent: _Parent) -> None:
        self._parent = parent
        self.traits = StageTraits(emits_marks=parent.marks)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = InputLogic(self._parent)
        return logic, logic


class InputLogic(BoundaryInLogic):
    """Holds elements until the stages ask for them; credits go to the parent."""

    def __init__(self, parent: _Parent) -> None:
        super().__init__(parent.in_window)
        self._parent = parent

    def on_start(self) -> None:
        self._parent.key = (self.interpreter.island.run.source_id(self), 0)

    def on_frame(self, frame: Frame) -> None:
        """A CHUNK, MARK, SIGNAL, TRACE, END or FAILURE of the parent."""
        if frame.kind == CHUNK:
            self.on_batch((chunk_of(frame), self._mark(frame.number)))
        elif frame.kind == MARK:
            self.on_batch((None, self._mark(frame.number)))
        elif frame.kind == SIGNAL:
            self.on_batch((None, Numbered(self._parent.key, frame.number)))
        elif frame.kind == TRACE:
            self._sampled(loads(frame.payload), frame.number)
        elif frame.kind == END:
            self.on_ended(None)
        else:
            self._parent.failure = made_again(frame.payload)
            self.on_failed(self._parent.failure)

    def _sampled(self, context: tuple[bytes, str], number: int) -> None:
        """The elements before the next mark stem from a sampled record, whose span is in the parent."""
        trace = self.interpreter.island.run.trace
        if trace is None:
            return
        span = trace.spans.heard(*context)
        if span is not None:
            trace.begin(span, Place(""), self._parent.key, (_EPOCH, number), alone=True)

    def _mark(self, number: int) -> Mark | None:
        return {self._parent.key: (_EPOCH, number)} if number else None

    def send_credits(self, n: int) -> None:
        self._parent.send(CREDIT, count=n)

    def send_cancel(self, cause: BaseException) -> None:
        self._parent.send(CANCEL, [described(cause)])


class _Output(GraphStage):
    """The sink of the stages: what goes to the parent."""

    shape = SINK
    name = "output of the worker process"
    handling = EXACT

    def __init__(self, parent: _Parent) -> None:
        self._parent = parent
        self.traits = StageTraits(reads_marks=parent.marks)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = OutputLogic(self._parent)
        return logic, logic


class OutputLogic(EncodingOutLogic):
    """Sends as many results as it has credit for."""

    def __init__(self, parent: _Parent) -> None:
        super().__init__()
        self._parent = parent
        self._credit = parent.credit

    def send_encoded(self, buffers: list[Buffer], count: int, mark: Mark | None) -> None:
        number = self._number(mark) if isinstance(mark, dict) else 0
        self._parent.send(CHUNK, buffers, count, number)
        if mark is not None and not number:
            self.send_mark(mark)

    @property
    def refused_elements(self) -> tuple[str, str]:
        return f"results of stage '{self._parent.label}'", "leave"

    def send_mark(self, mark: Mark) -> None:
        if isinstance(mark, dict):
            if self._number(mark):
                self._parent.send(MARK, number=self._number(mark))
        elif isinstance(mark, Numbered):
            self._parent.send(SIGNAL, number=mark.number)

    def _number(self, mark: PositionMark) -> int:
        """Return the parent's number of a mark; 0 for a mark of a source that runs inside the stages."""
        trace = self.interpreter.island.run.trace
        if trace is not None:
            trace.done(mark)
        return mark.get(self._parent.key, (_EPOCH, 0))[1]

    def send_end(self) -> None:
        self._parent.send(END)

    def send_failure(self, error: BaseException) -> None:
        upstream = error is self._parent.failure
        self._parent.send(FAILURE, [described(error)], number=int(upstream))

    def on_stop(self) -> None:
        """There is no other half to forget."""

    def on_frame(self, frame: Frame) -> None:
        """A CREDIT or CANCEL of the parent."""
        if frame.kind == CREDIT:
            self.on_credit(frame.count)
        else:
            self.on_cancelled(made_again(frame.payload))

    def on_pull(self, out: Connection) -> None:
        """There is no outlet."""


def run_stages(channel: Channel, stages: Sequence[tuple[GraphStage, Attributes]], label: str) -> None:
    """Run the stages of an island until they have ended. The job of the worker process."""
    frames = list[Frame]()
    parent = _Parent(channel, label)
    parent.send(READY)
    while not frames:
        if not channel.receive(frames):
            return
    begin = frames.pop(0)
    assert begin.kind == BEGIN
    settings = loads(begin.payload)
    parent.marks, parent.in_window, parent.credit = settings["marks"], settings["window"], settings["credit"]
    tracing = None
    if settings["traces"] is not None:
        from streamactors.tracing.setup import set_up_worker

        tracing = set_up_worker(switch, settings["traces"])
    with ActorSystem("worker") as system:
        module: Module = StageModule(_Input(parent))
        for stage, attributes in stages:
            module = Joined(module, StageModule(stage, attributes), keep_left)
        source, sink = materialize(
            Joined(module, StageModule(_Output(parent)), lambda left, right: (left, right)), system
        )
        for run in list(runs_of(system)):
            run.when_ended(channel.stop_receiving)
        threading.current_thread().name = "frames of the parent"
        while runs_of(system):
            for frame in frames:
                if frame.kind == LOOK:
                    parent.send(LOOKED, [looked_at(bytes(frame.payload).decode(), system)])
                    continue
                target = sink if frame.kind in (CREDIT, CANCEL) else source
                target.interpreter.post(target, target.on_frame, frame)
            frames.clear()
            try:
                got = channel.receive(frames)
            except OSError:
                got = 0
            if not got:
                break
        if runs_of(system):
            os._exit(0)  # the parent has ended, or wants no more
    if tracing is not None:
        tracing.shutdown()
