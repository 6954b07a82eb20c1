"""The base of sinks: states the demand, materializes a future, and reports marks done."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture, UnreadFailure
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Mark, PositionMark, merge_newer
from streamactors.engine.user_code import shortened_text
from streamactors.errors import AbruptTermination

HALF = MAX_ASKED // 2


class SinkLogic(Logic):
    """A stage with one inlet `self.in_` that materializes a future.

    Subclasses override `on_chunk` (called with whole chunks) and `result`. `done_at_end` says that a mark is done only when the sink
    has completed successfully (fold, to_list); otherwise it is done as soon as everything before it went through `on_chunk`."""

    done_at_end = False
    passes_marks = True
    in_: Connection
    _marks: PositionMark | None = None  # reported when the sink completes

    def __init__(self, stage: Any = None) -> None:
        super().__init__(stage)
        self.future: StreamFuture[Any] = StreamFuture()
        self.future.stop_stream = self._stop_from_outside

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        if self.done_at_end:
            self.last_hop = "until the stream ends"
        self.future.run = self.interpreter.island.run

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
        """Complete the sink: report all marks done, cancel upstream if it still runs, complete the future with `value`."""
        run = self.interpreter.island.run
        if run.marks_active:
            if self._marks:
                run.progress.done(self, self._marks)
            run.progress.sink_ended(self)
        self.complete_stage()
        self.future.try_complete(value)

    def fail_stage(self, error: BaseException) -> None:
        super().fail_stage(error)
        self.future.try_fail_of(self._unread(error), error)

    def _unread(self, error: BaseException) -> UnreadFailure | None:
        """Return what is logged when nobody reads the error; one per run. None for the end of the system and inside another stage,
        which hears of the error."""
        if self.inside or isinstance(error, AbruptTermination):
            return None
        interpreter = self.interpreter
        graph = " -> ".join(logic.name for logic in interpreter.logics)
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        text = (
            f"a stream has failed and nobody has read its result: {type(error).__name__}: {error}{notes}\n"
            f"  in graph {shortened_text(graph, 300)}"
        )
        return interpreter.island.run.unread_failure(text)

    def _stop_from_outside(self) -> None:
        """The future was cancelled; any thread."""
        self.interpreter.post(self, lambda _: self.complete_stage(), None)

    def on_stop(self) -> None:
        if not self.future.done():
            self.future.try_fail(AbruptTermination(f"sink {self.name} was stopped before its stream ended"))

    def stop(self) -> None:
        super().stop()
        self.future.stop_stream = self.future.run = None
        del self.future  # a future that nobody else holds is collected now, and its failure logged
