"""The batches of a run, shared by the island that fills them and the bridge's threads that give them to Spark.

The decisions are made in batch_state.py and batch_size.py. There is one lock with one condition; Spark's request for the next batch waits on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from streamactors.engine.marks.marks import PositionMark
from streamactors.engine.marks.ownership import Positions
from streamactors.spark.errors import SparkError
from streamactors.spark.sink.batch_size import BatchSize
from streamactors.spark.sink.batch_state import BatchPhase, BatchState, MicroBatch

LATEST_WAIT_S: Final = 0.5
"""How long a request for the next batch waits; without a wait Spark would ask again every 10 ms."""

SILENCE_S: Final = 0.01
"""A batch that is not full is given to Spark when no row has come for this long."""

FILL_S: Final = 0.2
"""A batch that is not full is given to Spark after this time, even if rows still come."""

GATHERS: Final = "until Spark takes the batch"
PLANS: Final = "Spark plans the batch"
WRITES: Final = "Spark runs it, and its checkpoint"
PLAN_WAIT_S: Final = 5.0
EMPTY_AFTER_S: Final = 5.0
"""A range without rows is given to Spark when no row has come for this long. It moves the checkpoint, at the cost of a batch."""


class MicroBatches:
    """`changed()` is called, on any thread, when the island should look at its demand again; `acknowledged(mark)` when Spark's
    checkpoint has everything before a mark. `others_behind(mark)` returns whether another sink of the run has not done everything before a
    mark; `when_others_done(mark, then)` calls `then` when all of them have. `reached(mark, hop)`: everything before a mark has passed a hop of
    the latency table."""

    def __init__(
        self,
        max_rows: int,
        target_ms: float,
        *,
        changed: Callable[[], None],
        acknowledged: Callable[[PositionMark], None],
        others_behind: Callable[[PositionMark], bool],
        when_others_done: Callable[[PositionMark, Callable[[], None]], None],
        reached: Callable[[PositionMark, str], None] = lambda mark, hop: None,
    ) -> None:
        self.state = BatchState()
        self._size = BatchSize(max_rows, target_ms)
        self._max_rows = max_rows
        self._changed = changed
        self._acknowledged = acknowledged
        self._others_behind = others_behind
        self._when_others_done = when_others_done
        self._reached = reached
        self._awaits_others = False
        self._condition = threading.Condition()
        self._error: BaseException | None = None
        self._given_at = 0.0
        self._empty_since: float | None = None
        self._extra = 0  # rows beyond the target, while another sink of the run is behind
        self.batches = 0
        self.rows = 0

    # ── the stream; on the island ─────────────────────────────────────────────────────────────────────────────────

    def add(self, chunk: Any, rows: int) -> None:
        """Rows have come."""
        with self._condition:
            self.state.add(chunk, rows)
            if self._awaits_others:
                self._condition.notify_all()  # there may be no room left, and the other sinks need more elements

    def mark(self, positions: Positions, mark: PositionMark) -> None:
        """A mark has come after the rows."""
        with self._condition:
            known = self.state.mark(positions, mark)
            self._condition.notify_all()
        if known:
            self._acknowledged(known)

    def end_of_input(self) -> None:
        """The input has ended."""
        with self._condition:
            self.state.end_of_input()
            self._condition.notify_all()

    def fail(self, error: BaseException) -> None:
        """The stream has failed: every later question raises."""
        with self._condition:
            self._error = error
            self._condition.notify_all()

    def room(self) -> int:
        """Return how many rows may come."""
        with self._condition:
            return self.state.room(self._size.rows + self._extra)

    # ── Spark; on the bridge's threads ────────────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> bool:
        """True before Spark's first request, which says where to begin."""
        return self.state.phase is BatchPhase.WAITING

    def begin(self, start: Positions, until: Positions | None) -> None:
        """Spark has said where to begin."""
        with self._condition:
            self.state.begin(start, until)

    def latest(self, start: Positions) -> tuple[Positions, bool]:
        """See bridge.Answering.latest."""
        with self._condition:
            before = self.state.given
            done = self.state.acknowledge(start)
            if before is not None and self.state.given is None:
                self._size.took(before.rows, (time.monotonic() - self._given_at) * 1_000)
                self.batches += 1
                self.rows += before.rows
                self._extra = 0
        if done:
            self._acknowledged(done)
        self._changed()
        batch = self._wait_for_batch()
        if batch is None:
            with self._condition:
                return start, self.state.over
        return batch.end, False

    def _wait_for_batch(self) -> MicroBatch | None:
        deadline = time.monotonic() + LATEST_WAIT_S
        with self._condition:
            self._let_it_fill()
            while True:
                self._raise_error()
                state = self.state
                fresh = state.given is None
                batch = state.cut(
                    self._max_rows,
                    others_behind=self._others_behind,
                    empty_too=state.input_over or self._long_empty(),
                )
                if batch is not None:
                    if fresh:
                        self._reached(batch.mark, GATHERS)
                        self._given_at = time.monotonic()
                        self._empty_since = None
                        # the batch was full -> the island looked, saw no room and asked for nothing -> the cut made room for the next one
                        self._changed()
                    return batch
                left = deadline - time.monotonic()
                if left <= 0 or state.over:
                    return None
                if self._wait_for_others():
                    continue
                before = state.rows
                self._condition.wait(left)
                if not before:
                    self._let_it_fill()

    def _wait_for_others(self) -> bool:
        """Have the condition notified when the other sinks have done the first segment they are behind. True if they just have."""
        state = self.state
        mark = next((each.mark for each in state.segments if self._others_behind(each.mark)), None)
        if mark is None:
            return False
        if state.room(self._size.rows + self._extra) <= 0:
            self._extra += self._size.rows  # another sink needs more elements before it is done with these
            self._changed()
        if not self._awaits_others:
            self._awaits_others = True
            self._when_others_done(mark, self._on_others_done)
        return not self._awaits_others

    def _on_others_done(self) -> None:
        with self._condition:
            self._awaits_others = False
            self._condition.notify_all()

    def _let_it_fill(self) -> None:
        """Rows are coming: wait until the batch is full, no row has come for SILENCE_S, or FILL_S has passed."""
        state = self.state
        until = time.monotonic() + FILL_S
        seen = 0
        while seen < state.rows < self._size.rows and state.given is None and not state.input_over and not self._error:
            seen = state.rows
            quiet_at = time.monotonic() + SILENCE_S
            while state.rows == seen and (left := min(quiet_at, until) - time.monotonic()) > 0:
                self._condition.wait(left)
            if time.monotonic() >= until:
                return

    def _long_empty(self) -> bool:
        segments = self.state.segments
        if not segments or segments[0].rows:
            self._empty_since = None
            return False
        now = time.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        return now - self._empty_since > EMPTY_AFTER_S

    def batch(self, start: Positions, end: Positions) -> tuple[int, list[Any]] | None:
        """See bridge.Answering.batch."""
        deadline = time.monotonic() + PLAN_WAIT_S
        with self._condition:
            while True:
                self._raise_error()
                if self.state.phase is not BatchPhase.REPEATING:
                    if self.state.given is not None and not self._given_at:
                        self._given_at = time.monotonic()
                    found = self.state.batch(start, end)
                    self._reached(found.mark, PLANS)
                    return found.rows, found.chunks
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._condition.wait(left)

    def given(self) -> PositionMark | None:
        """Return the mark of the batch that Spark has; None if it has none, or one of an earlier run that it repeats."""
        with self._condition:
            given = self.state.given
            return None if given is None else dict(given.mark)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise SparkError(f"the stream has failed: {type(self._error).__name__}: {self._error}")

    # ── for snapshots ─────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> dict[str, Any]:
        """Return counts and positions."""
        with self._condition:
            state = self.state
            return {
                "phase": "over" if state.over else state.phase.value,
                "checkpoint": dict(state.position),
                "batches": self.batches,
                "rows": self.rows,
                "batch_rows": self._size.rows,
                "given_rows": state.given.rows if state.given is not None else 0,
                "gathered_rows": state.rows + state.tail_rows,
                "retained_rows": state.retained_rows,
            }
