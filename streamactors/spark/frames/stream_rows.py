"""StreamRows: the source stage over a streaming DataFrame. One batch of Spark is one mark.

    Spark: foreachBatch(N) ──► rows ──► hand-over ══► stage ──► … sinks
                                                        mark N+1 after the rows
           returns, commits/N  ◄── done-N in our file ◄── every sink has done the mark

Threads: Spark's callback thread converts a batch and waits; the island takes chunks and pushes them as far as downstream asks. They share
the hand-over, which has a lock and holds at most two record batches."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import Needs, PositionMark
from streamactors.engine.marks.source_marks import SourceMarks
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import AbruptTermination
from streamactors.spark.errors import SparkError
from streamactors.spark.files import Files
from streamactors.spark.frames.record_batches import record_batches
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.query.runner import INTERRUPTED, QueryRunner

DONE: Final = "streamactors-done.json"
HELD: Final = 2
PARTITION: Final = "batches"


class StreamRows(GraphStage):
    """Emit the rows of a streaming DataFrame.

    Emits when: Spark has computed a batch.   Completes when: the query ends.   Fails when: the query fails.
    Marks: one after each batch, whose position is the number of batches so far."""

    shape = SOURCE
    name = "spark_stream"
    traits = StageTraits(
        emits_marks=True,
        reads_marks=True,
        endless=True,
        needs=Needs("SparkSource.of_stream, which ends a batch when its rows are done,", exact=True),
        owns_positions="Spark's checkpoint of the source",
    )

    def __init__(
        self, frame: Any, elements: Callable[[Any], list[Any]], checkpoint: str, trigger: Mapping[str, Any]
    ) -> None:
        self.frame = frame
        self.elements = elements
        self.checkpoint = checkpoint
        self.trigger = trigger

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = StreamRowsLogic(self)
        return logic, logic.query


class _Runner(QueryRunner):
    """Runs the query over the user's own DataFrame."""

    source: Any = None

    def frame(self, options: Mapping[str, str]) -> Any:
        return self.source


class StreamRowsLogic(SourceLogic):
    """Hands the batches of Spark's callback thread to the island."""

    keep_going = True  # until the query has ended
    _runner: _Runner | None = None  # None: the stage has failed at its start

    def __init__(self, stage: StreamRows) -> None:
        super().__init__(stage)
        self.query = SparkStreamQuery()
        self._condition = threading.Condition()
        self._chunks: deque[list[Any] | int] = deque()  # rows, and after those of a batch the number of batches
        self._taken: list[Any] = []
        self._done = 0
        self._closed: BaseException | None = None  # no batch is taken any more
        self._ended = False
        self._failed: BaseException | None = None

    def bind(self) -> None:
        """Called when the run is built."""
        run = self.interpreter.island.run
        self._source = run.source_id(self)
        self._marks = SourceMarks((self._source, PARTITION))
        run.progress.listen(self._source, self._on_done)

    def on_start(self) -> None:
        stage: StreamRows = self.stage
        spark = stage.frame.sparkSession
        self._files = Files(spark, stage.checkpoint)
        self._look = self.async_callback(self._on_look)
        ended = self.async_callback(self._on_ended)
        self._runner = runner = _Runner(
            spark,
            self._write,
            None,
            stage.checkpoint,
            stage.trigger,
            None,
            prepare=dict,
            on_started=self.query.started,
            on_ended=ended.invoke,
        )
        runner.source = stage.frame
        self.query.attach(runner.stop, self._counts, dict)
        runner.start()

    # ── on Spark's callback thread ────────────────────────────────────────────────────────────────────────────────

    def _write(self, frame: Any, epoch: int, query_id: str) -> None:
        """Hand over the rows of a batch and wait until they are done; not for a batch that was done before a crash."""
        if self._was_done(query_id) > epoch:
            return
        for batch in record_batches(frame):
            self._hand_over(self.stage.elements(batch))
        self._hand_over(epoch + 1)
        with self._condition:
            self._condition.wait_for(lambda: self._done > epoch or self._closed is not None)
            if self._done <= epoch:
                raise self._interruption()
        self._files.make()
        self._files.write(json.dumps({"version": 1, "query": query_id, "done": epoch + 1}), DONE)

    def _was_done(self, query_id: str) -> int:
        if not self._files.has(DONE):
            return 0
        found = json.loads(self._files.read(DONE))
        return int(found["done"]) if found["query"] == query_id else 0

    def _hand_over(self, item: list[Any] | int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: len(self._chunks) < HELD or self._closed is not None)
            if self._closed is not None:
                raise self._interruption()
            self._chunks.append(item)
        self._look.invoke(None)

    def _interruption(self) -> Exception:
        """Return what ends Spark's batch without its commit: the batch comes again with the next run."""
        if isinstance(self._closed, NonFailureCancellation):
            return RuntimeError(INTERRUPTED)
        return SparkError(f"the stream has failed: {type(self._closed).__name__}: {self._closed}")

    def _on_done(self, at: PositionMark) -> None:
        with self._condition:
            self._done = max(self._done, *(position for _, position in at.values()))
            self._condition.notify_all()

    def _counts(self) -> dict[str, Any]:
        with self._condition:
            return {"phase": "over" if self._ended else "running", "batches": self._done, "gathered": len(self._chunks)}

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    def _on_look(self, _: None) -> None:
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        while not out.out_closed:
            if self._taken:
                if not out.asked:
                    return
                chunk, self._taken = self._taken[: out.asked], self._taken[out.asked :]
                out.push(chunk)
                continue
            with self._condition:
                if not self._chunks:
                    break
                item = self._chunks.popleft()
                self._condition.notify_all()
            if isinstance(item, int):
                out.mark(self._marks.at(item))
            else:
                self._taken = item
        if self._ended and not out.out_closed:
            self._finish_stream()

    def _finish_stream(self) -> None:
        if self._failed is not None:
            self.fail_stage(self._failed)
            return
        for mark in self._marks.at_end(self._done):
            self.out.mark(mark)
        self.complete_stage()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        assert self._runner is not None
        self._runner.stop()
        self._close(cause)
        if self._ended:
            super().on_cancel(out, cause)

    def _on_ended(self, error: BaseException | None) -> None:
        self._ended = True
        self._failed = error
        self.query.end(error)
        if self.out.out_closed:
            self.complete_stage()
        else:
            self.on_pull(self.out)

    def _close(self, cause: BaseException) -> None:
        with self._condition:
            self._closed = self._closed or cause
            self._condition.notify_all()

    def on_stop(self) -> None:
        self._close(AbruptTermination("the stream was ended while Spark's query ran"))
        if self._runner is None:
            self.query.end(self.failure or self._closed)
        elif not self._ended:
            self._runner.stop()
            self.query.end(self._closed)

    def snapshot_state(self) -> str:
        return f"{self._done} batches done, {len(self._chunks)} chunks held"
