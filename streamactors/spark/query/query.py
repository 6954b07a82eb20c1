"""SparkStreamQuery: what a stream that ends in Spark materializes. Every method may be called from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration
from streamactors.engine.marks.ownership import Positions
from streamactors.living import Living
from streamactors.spark.query.executors import executors_of

RUNNING: Final[Living[SparkStreamQuery]] = Living()
"""The queries of this process that Spark has started and that have not ended."""


class SparkStreamQuery:
    """A query that runs in Spark, and the stream that feeds it. Both end together."""

    def __init__(self) -> None:
        self._ended: StreamFuture[None] = StreamFuture("Spark query")
        self._spark: Any = None
        self._id: str | None = None
        self._name: str | None = None
        self._stop: Callable[[], None] = lambda: None
        self._stop_early = False
        self._counts: Callable[[], dict[str, Any]] = dict
        self._ends: Callable[[], Positions] = dict
        self._lock = threading.Lock()

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def id(self) -> str | None:
        """The id that the checkpoint gives the query; the same after every restart. None before Spark has started it."""
        return self._id

    @property
    def name(self) -> str | None:
        """The query's name in Spark's progress, listeners and pages. None before Spark has started it."""
        return self._name

    @property
    def is_active(self) -> bool:
        """True until the query has ended."""
        return not self._ended.done()

    @property
    def completion(self) -> StreamFuture[None]:
        """A future that completes, or fails, with the query; can be awaited."""
        return self._ended

    def await_termination(self, timeout: Duration | None = None) -> bool:
        """Wait up to `timeout` (seconds, a timedelta or a string; None: without limit) for the end; return whether the query has ended.

        Raises the query's error: the very exception of the user's function where that one failed."""
        try:
            self._ended.result(timeout)
        except TimeoutError:
            if self._ended.done():
                raise
            return False
        return True

    def exception(self) -> BaseException | None:
        """Return the error of the query; None while it runs and when it ended well."""
        return self._ended.exception(0) if self._ended.done() else None

    def stop(self, timeout: Duration | None = 60.0) -> None:
        """End the query now, and wait up to `timeout` (seconds, a timedelta or a string; None: without limit) for its end. A batch that is being written is interrupted, and comes again when the graph is run again."""
        with self._lock:
            stop = self._stop
            self._stop_early = True
        stop()
        self._ended.exception(timeout)

    # ── counts ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spark_query(self) -> Any:
        """PySpark's StreamingQuery; None before it has started."""
        return self._spark

    def progress(self) -> dict[str, Any]:
        """Return counts: `phase`, `checkpoint` (the positions in Spark's checkpoint), `batches`, `rows`, `batch_rows` (the size of batch that
        is aimed at), `given_rows` and `gathered_rows` (retained until the checkpoint covers them), and `spark` (Spark's last progress).

        `phase`: "waiting" (Spark has not asked yet), "repeating" (a batch of an earlier run), "giving" (batch after batch) or "over".
        Of a run on executors: `phase` ("running" or "over"), `checkpoint`, `batches` (of all runs with this checkpoint), `batch_rows` (the
        rows of the last batch) and `spark`."""
        counts = self._counts()
        query = self._spark
        if query is not None and self.is_active:
            try:
                counts["spark"] = query.lastProgress
            except Exception:  # noqa: BLE001  # it is just ending
                counts["spark"] = None
        return counts

    def executors(self) -> list[dict[str, Any]]:
        """Return a row for each executor that Spark's driver knows: `id`, `state`, `address`, `cores`, `tasks` (running now), `done`, `failed`, and the
        memory of cached blocks. Nothing before the query has started, with Spark Connect, or when the JVM has gone. Waits for the JVM."""
        query = self._spark
        if query is None or not self.is_active:
            return []
        try:
            return executors_of(query)
        except Exception:  # noqa: BLE001  # the JVM, or the session, has gone
            return []

    def lag(self) -> dict[str, int]:
        """Return per partition the number of positions between the checkpoint and the end, where the source knows its end."""
        ends = self._ends()
        done = self._counts().get("checkpoint", {})
        return {name: max(0, end - done[name]) for name, end in ends.items() if name in done}

    # ── from the stage ────────────────────────────────────────────────────────────────────────────────────────────

    def attach(
        self, stop: Callable[[], None], counts: Callable[[], dict[str, Any]], ends: Callable[[], Positions]
    ) -> None:
        """Connect the handle to its run; called once, by the stage."""
        with self._lock:
            self._stop, self._counts, self._ends = stop, counts, ends
            early = self._stop_early
        if early:
            stop()

    def started(self, query: Any) -> None:
        """Spark has started the query."""
        self._id = str(query.id)  # asked now: the JVM may go away
        name = getattr(query, "name", None)
        self._name = None if name is None else str(name)
        self._spark = query
        RUNNING.add(self)

    def end(self, error: BaseException | None) -> None:
        """The query and the stream have ended."""
        RUNNING.discard(self)
        if error is None:
            self._ended.try_complete(None)
        else:
            self._ended.try_fail(error)
