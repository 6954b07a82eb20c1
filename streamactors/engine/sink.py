"""The base of sinks: a demand window, a materialized future, and when a mark is done."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.connection import MAX_ASKED, Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Mark, PositionMark, merge_newer
from streamactors.errors import AbruptTermination

HALF = MAX_ASKED // 2


class SinkLogic(Logic):
    """A stage with one inlet `self.in_` that materializes a future.

    Subclasses override `on_chunk` (called with whole chunks) and `result`. `done_at_end` says that a mark is done only when the sink
    has completed successfully (fold, to_list); otherwise it is done as soon as everything before it went through `on_chunk`."""

    done_at_end = False
    passes_marks = True
    in_: Connection
    _marks: PositionMark | None = None  # those to be done at the end

    def __init__(self) -> None:
        self.future: StreamFuture[Any] = StreamFuture()

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]

    # ── for subclasses ────────────────────────────────────────────────────────────────────────────────────────────

    def on_chunk(self, chunk: list[Any]) -> None:
        """Take a chunk."""

    def result(self) -> Any:
        """Return the value of the future when the stream has completed."""
        return None

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self.in_.want(MAX_ASKED)

    def on_push(self, in_: Connection) -> None:
        self.on_chunk(in_.grab(HALF))
        due = in_.due
        in_.want(MAX_ASKED if due <= HALF else due)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self.done_at_end:
            if isinstance(mark, dict):
                if self._marks is None:
                    self._marks = {}
                merge_newer(self._marks, mark)
        else:
            self.mark_done(mark)

    def mark_done(self, mark: Mark) -> None:
        """The effect of everything before `mark` is done."""
        self.interpreter.island.run.progress.done(self, mark)

    def on_complete(self, in_: Connection) -> None:
        self.succeed(self.result())

    def succeed(self, value: Any) -> None:
        """End well: everything seen is done, the future has its value, upstream is cancelled if it still runs."""
        run = self.interpreter.island.run
        if run.marks_active:
            if self._marks:
                run.progress.done(self, self._marks)
            run.progress.sink_ended(self)
        self.complete_stage()
        self.future.try_complete(value)

    def fail_stage(self, error: BaseException) -> None:
        super().fail_stage(error)
        self.future.try_fail(error)

    def on_stop(self) -> None:
        if not self.future.done():
            self.future.set_exception(AbruptTermination(f"sink {self.name} was stopped before its stream ended"))
