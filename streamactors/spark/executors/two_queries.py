"""TwoQueries: a graph with key_by as two queries under one handle. The first one writes rows under their new keys to a topic, each range in
one transaction, and the second one reads that topic.

The order of the rows in the topic says what is late, once and for all. Queries that end with their input run one after the other, because the
second one reads the topic to its end. Others run side by side. If one query fails, the other one is stopped, and the handle fails with the
error. Two queries that are drained each end after their own batch. Owner: the threads of the two runners, under a lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.messages import TakeSnapshot
from streamactors.kafka.state.repartition import RepartitionRun
from streamactors.spark.executors.runner import GraphRun
from streamactors.spark.query.query import SparkStreamQuery


class TwoQueries:
    """Both queries. `control` and `query` are the handles that the graph materializes."""

    def __init__(self, between: RepartitionRun, first: GraphRun, second: GraphRun, *, in_turn: bool) -> None:
        self._between = between
        self._first = first
        self._second = second
        self._in_turn = in_turn
        self._lock = threading.Lock()
        self._running: set[GraphRun] = set()
        self._stopping = False
        self._draining = False
        self._error: BaseException | None = None
        self._upkeep: Any = None
        self.query = SparkStreamQuery()
        self.control = Control()
        second.on_started = self.query.started
        first.query.completion.add_done_callback(lambda future: self._ended(first, future))
        second.query.completion.add_done_callback(lambda future: self._ended(second, future))
        self.query.attach(self.stop, self._counts, self._ends)
        self.control.attach(self._asked, self._drain)

    def start(self) -> None:
        """Create the topic, and start. Raises TopicNotFound, KafkaError."""
        self._upkeep = self._between.prepare_topic()
        self._upkeep.start()
        runs = [self._first] if self._in_turn else [self._first, self._second]
        self._running.update(runs)
        for run in runs:
            run.start()

    def stop(self) -> None:
        """Stop both queries; any thread, returns at once."""
        self._end_with(GraphRun.stop)

    def _drain(self) -> None:
        self._draining = True
        self._end_with(GraphRun.drain)

    def _end_with(self, end: Callable[[GraphRun], None]) -> None:
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for run in running:
            end(run)

    def _ended(self, run: GraphRun, future: Future[None]) -> None:
        error = future.exception()
        with self._lock:
            self._running.discard(run)
            self._error = self._error or error
            goes_on = self._in_turn and run is self._first and error is None and not self._stopping
            if goes_on:
                self._running.add(self._second)
            over = not self._running
            ends_alone = self._draining and error is None
        if goes_on:
            self._second.start()
        elif over:
            self._end()
        elif not ends_alone:  # a query that is drained ends after its own batch
            self.stop()

    def _end(self) -> None:
        self._upkeep.stop()
        self.query.end(self._error)
        self.control.closed(self._snapshot())
        if self._error is None:
            self.control.is_shutdown.try_complete(None)
        else:
            self.control.is_shutdown.try_fail(self._error)

    def _counts(self) -> dict[str, Any]:
        first, second = self._first.counts(), self._second.counts()
        phase = "running" if self.query.is_active else "over"
        return {**second, "phase": phase, "checkpoint": {**first["checkpoint"], **second["checkpoint"]}}

    def _ends(self) -> dict[str, int]:
        return {**self._first.ends(), **self._second.ends()}

    def _snapshot(self) -> dict[str, Any]:
        return {**self._counts(), "partitions": {}}

    def _asked(self, message: Any) -> None:
        if isinstance(message, TakeSnapshot):
            message.reply.try_complete(self._snapshot())
        else:
            self._first.asked(message)
