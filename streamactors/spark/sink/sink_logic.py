"""The running stage that ends in Spark: rows come in, Spark takes them in batches that end at marks.

Three threads work here: the island (rows and marks come in), the bridge's threads (Spark asks for the next batch), and the runner's thread
(Spark's query starts and ends). They share `MicroBatches`, which has a lock; everything else of this stage happens on the island."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Key, Mark
from streamactors.engine.marks.ownership import Positions, SourceHandle, own
from streamactors.errors import AbruptTermination, StreamActorsError
from streamactors.spark.bridge.bridge import Bridge, reachable
from streamactors.spark.bridge.bridge_tls import tls_for_one_run
from streamactors.spark.errors import SparkError, SparkSetupError
from streamactors.spark.files import Files
from streamactors.spark.query.checkpoint import Checkpoint
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.query.query_name import QueryName
from streamactors.spark.query.runner import QueryRunner
from streamactors.spark.query.source_identity import SourceIdentity
from streamactors.spark.rows import Rows, largest
from streamactors.spark.sink.batch_state import PLENTY
from streamactors.spark.sink.batches import WRITES, MicroBatches
from streamactors.spark.sink.settings import SinkTarget

CLAIM_TIMEOUT_S = 60.0

_log = logging.getLogger("streamactors.spark")


class SparkSinkLogic(Logic):
    """The stage on its island; it prepares, starts and ends the query."""

    keep_going = True  # the query ends after its input
    last_hop = WRITES
    in_: Connection

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self.query = SparkStreamQuery()
        self._rows = Rows(target.schema.arrow, target.settings.dead_letters)
        self._skip_lost = not target.settings.fail_on_data_loss
        self._largest = (
            PLENTY  # the most rows of an element so far; the first element is asked for alone, for it may be a table
        )
        self._outcome: BaseException | None = None
        self._query_ended = False
        self._order: list[Any] = []  # the sources, by their place in the graph
        self._handles: dict[Any, SourceHandle] = {}
        self._claimed = threading.Condition()
        self._bridge: Bridge | None = None
        self._checkpoint: Checkpoint | None = None
        self._closing = threading.Lock()
        self._available_now = "availableNow" in target.trigger
        self._new_query = False

    def bind(self) -> None:
        """Own the positions of the sources whose marks come here: they wait until this sink says where to begin."""
        self.in_ = self.inlets[0]
        self._order = sorted(self.in_.carries)
        self._index = {source: str(i) for i, source in enumerate(self._order)}
        self._names: dict[Key, str] = {}  # of the partitions in Spark's positions
        own(self.interpreter.island.run, self._order, self)

    def on_start(self) -> None:
        target = self._target
        progress = self.interpreter.island.run.progress
        look = self.async_callback(self._look)
        other_failed = self.async_callback(self.fail_stage).invoke
        alone = {self}  # most runs have no other sink, and nothing to ask
        self._batches = MicroBatches(
            target.max_rows,
            target.target_ms,
            changed=lambda: look.invoke(None),
            acknowledged=lambda mark: progress.done(self, mark),
            others_behind=lambda mark: progress.sinks != alone and progress.is_behind(mark, among=self._is_other),
            reached=lambda mark, hop: None if progress.hops is None else progress.hops.reached(self, mark, hop),
            when_others_done=lambda mark, then: progress.when_done(mark, then, self._is_other, other_failed),
        )
        ended = self.async_callback(self._on_query_ended)
        query_name = target.settings.query_name
        write, trace = target.write, self.interpreter.island.run.trace
        if trace is not None:
            from streamactors.spark.sink.batch_trace import BatchTrace

            write = BatchTrace(trace, self.name, self._batches.given).around(write)
        self._runner = QueryRunner(
            target.spark,
            write,
            target.schema.spark,
            target.checkpoint,
            target.trigger,
            None if query_name is None else QueryName(query_name),
            prepare=self._prepare,
            on_started=self.query.started,
            on_ended=ended.invoke,
        )
        stop = self.async_callback(self._stop_now)
        self.query.attach(lambda: stop.invoke(None), self._batches.snapshot, self._ends)
        self._runner.start()

    # ── the sources ───────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, source: Any, handle: SourceHandle) -> None:
        """A source has started and waits for its first position; on its island."""
        with self._claimed:
            again = source in self._handles
            self._handles[source] = handle
            self._claimed.notify_all()
        if again:
            error = SparkError(
                f"source {handle.label} was started again within the run; before a SparkSink run the whole graph again, "
                "it continues at the checkpoint"
            )
            self.async_callback(self.fail_stage).invoke(error)

    def _all_handles(self) -> list[SourceHandle]:
        with self._claimed:
            if not self._claimed.wait_for(lambda: len(self._handles) == len(self._order), CLAIM_TIMEOUT_S):
                raise SparkError("a source of the graph did not start")
            return [self._handles[source] for source in self._order]

    def _ends(self) -> Positions:
        return _joined(handle.ends() for handle in self._all_handles())

    # ── before the query starts; on the runner's thread ───────────────────────────────────────────────────────────

    def _prepare(self) -> dict[str, str]:
        """Return the options of the reader. A stage that has stopped meanwhile has seen nothing to close, or only a part of it."""
        try:
            options = self._open()
            if self.stopped:
                raise AbruptTermination("the stream was ended before Spark's query began")
            return options
        finally:
            if self.stopped:
                self._close()

    def _open(self) -> dict[str, str]:
        target, settings = self._target, self._target.settings
        handles = self._all_handles()
        unbounded = [handle.label for handle in handles if not handle.bounded]
        if self._available_now and unbounded:
            raise SparkSetupError(
                f"the trigger available_now ends with its input, and {unbounded[0]} never ends; "
                'make it end: Consumer.source(…, until="end")'
            )
        self._runner.name_otherwise(f"{self.name} {', '.join(handle.label for handle in handles)}")
        self._checkpoint = Checkpoint(Files(target.spark, target.checkpoint))
        self._checkpoint.open(
            [SourceIdentity(handle.label, handle.identity()) for handle in handles],
            target.schema.spark.simpleString(),
            table=target.query_table,
        )
        slices = target.spark.sparkContext.defaultParallelism
        tls = tls_for_one_run() if settings.encrypt else None
        self._bridge = bridge = Bridge(self, target.schema.arrow, settings.bind, slices, tls)
        bridge.start()
        host, port = bridge.address
        return {
            "host": reachable(target.spark.sparkContext, host, settings.advertise),
            "port": str(port),
            **bridge.options,
        }

    # ── Spark asks; on the bridge's threads ───────────────────────────────────────────────────────────────────────

    def initial(self) -> Positions:
        """See bridge.Answering."""
        assert self._checkpoint is not None
        self._new_query = True
        with self._own_errors():
            return self._checkpoint.initial(
                lambda: _joined(handle.initial(skip_lost=self._skip_lost) for handle in self._all_handles())
            )

    def latest(self, start: Positions) -> tuple[Positions, bool]:
        """See bridge.Answering."""
        with self._own_errors():
            if self._batches.waiting:
                self._begin(start, None)
            offset, over = self._batches.latest(start)
        if over and not self._available_now:
            if self._new_query and not self._batches.batches:
                self._new_query = (
                    False  # Spark runs a first batch even without rows; at its next question that one is written
                )
            else:
                self._runner.stop()
        return offset, over

    def batch(self, start: Positions, end: Positions) -> tuple[int, list[Any]] | None:
        """See bridge.Answering."""
        with self._own_errors():
            if self._batches.waiting:
                self._begin(start, end)
            return self._batches.batch(start, end)

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Fail the stream with the error itself before Spark gets it, because Spark reports errors only as text."""
        try:
            yield
        except Exception as error:
            self.async_callback(self.fail_stage).invoke(error)
            if isinstance(error, StreamActorsError):
                raise
            raise SparkError(f"{type(error).__name__}: {error}") from error

    def _begin(self, start: Positions, until: Positions | None) -> None:
        self._batches.begin(start, until)
        for i, handle in enumerate(self._all_handles()):
            part = _part(start, i)
            if not handle.identity() and part != handle.initial():
                self._warn_that_the_source_is_not_verified(handle.label, part)
            handle.begin(part, None if until is None else _part(until, i), skip_lost=self._skip_lost)
        self.async_callback(self._look).invoke(None)

    def _warn_that_the_source_is_not_verified(self, label: str, start: Positions) -> None:
        _log.warning(
            "checkpoint %s: cannot verify that this %s source matches the checkpoint; continuing after element %s; "
            "give other elements a checkpoint of their own",
            self._target.checkpoint,
            label,
            sum(start.values()),
        )

    def _is_other(self, sink: object) -> bool:
        """True for the sinks beside Spark. They must have done a cut first: a crash right after Spark's commit would lose their part."""
        return sink is not self

    # ── the stream; on the island ─────────────────────────────────────────────────────────────────────────────────

    def _look(self, _: None) -> None:
        self._ask()

    def _ask(self) -> None:
        room = self._batches.room()
        if room > 0:
            self.in_.want(self._elements(room))

    def _elements(self, room: int) -> int:
        """Return how many elements to take for this many rows. Any element may be as large as the largest so far; rows between two marks
        cannot be split, and should fit into one batch."""
        return max(1, min(MAX_ASKED, room // self._largest))

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._elements(self._batches.room()))
        for batch in self._rows.batches(chunk):
            self._batches.add(batch, batch.num_rows)
        rows = largest(chunk)
        self._largest = rows if self._largest == PLENTY else max(self._largest, rows)
        self._ask()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if type(mark) is dict:
            names = self._names
            for source, part in mark.keys() - names:
                names[source, part] = f"{self._index[source]}/{part}"
            self._batches.mark({names[key]: place for key, (_, place) in mark.items()}, mark)
        self._ask()

    def on_complete(self, in_: Connection) -> None:
        # a control, or a stage such as take, has ended an unbounded source
        if not all(handle.bounded for handle in list(self._handles.values())):
            self._runner.ends_soon()
        self._batches.end_of_input()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.fail_stage(error)

    # ── the end; on the island ────────────────────────────────────────────────────────────────────────────────────

    def _stop_now(self, _: None) -> None:
        self._runner.stop()
        self.in_.cancel(NO_MORE_ELEMENTS)

    def fail_stage(self, error: BaseException) -> None:
        """The stage stays until the query has ended, too."""
        if self._outcome is None:
            self._outcome = error
        if self._query_ended:
            super().fail_stage(error)
            return
        self.in_.cancel(error)
        self._batches.fail(error)
        self._runner.stop()

    def _on_query_ended(self, error: BaseException | None) -> None:
        self._query_ended = True
        error = self._outcome or error
        if error is not None:
            self.fail_stage(error)
        else:
            self.interpreter.island.run.progress.sink_ended(self)
            self.complete_stage()

    def on_stop(self) -> None:
        error = self._outcome
        if not self._query_ended:
            self._runner.stop()
            error = error or AbruptTermination("the stream was ended while Spark's query ran")
        self._close()
        self.query.end(error)

    def _close(self) -> None:
        with self._closing:
            if self._bridge is not None:
                self._bridge.close()
            if self._checkpoint is not None:
                self._checkpoint.close()

    def outside_wait(self) -> str:
        rows = self._batches.snapshot()["given_rows"]
        return f"until Spark has written its batch of {rows:,} rows" if rows else "until Spark asks for its next batch"

    def snapshot_state(self) -> str:
        counts = self._batches.snapshot()
        return f"{counts['phase']}: {counts['given_rows']} rows with Spark, {counts['gathered_rows']} gathered"


def _joined(parts: Any) -> Positions:
    return {f"{i}/{name}": place for i, part in enumerate(parts) for name, place in part.items()}


def _part(positions: Positions, i: int) -> Positions:
    prefix = f"{i}/"
    return {name.removeprefix(prefix): place for name, place in positions.items() if name.startswith(prefix)}
