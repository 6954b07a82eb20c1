"""The edges of a task: where rows enter it, leave it, and return by a repartition topic.

Owner: WindowTask. Rows leave into the `Outbox` that the operators of a task share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.record_steps import as_record
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.topology.queues import InternalQueues
from streamactors.windows.values import own_row


class Output(NamedTuple):
    """A row that leaves the topology."""

    topic: str
    record: Record | WindowedRecord


new_output: Final[Callable[[tuple[str, Any]], Output]] = partial(tuple.__new__, Output)
"""Makes an Output of a pair, in half the time of `Output(topic, record)`."""


class Outbox:
    """The Outputs of a task since its caller took them.

    With `queues` the repartition topics are in memory; without, their rows leave as Outputs, too, and come back as rows of
    the topic."""

    def __init__(self, queues: InternalQueues | None) -> None:
        self.rows: list[Any] = []
        self.queues = queues


class TaskEntrance(Operator):
    """The first operator after a topic: drops and counts rows with negative timestamps.

    `time`: the stream time of the processors after it, which each row moves; None if there are none."""

    def __init__(
        self, node: str, env: TaskEnvironment, takes: frozenset[type] | None, time: TaskTime | None = None
    ) -> None:
        """`takes`: the types of rows; other rows become Records, or are refused. None: there are no others."""
        super().__init__(node, env)
        self._takes = takes
        self.time = time

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        if len(rows) == 1 and type(rows[0]) is Record:
            [row] = rows
            if row.timestamp >= 0:
                if self.time is not None:
                    self._advance(row.timestamp)
                out.append(row)
                return
        if self._takes is not None and not self._takes.issuperset(map(type, rows)):
            rows = [as_record(self.node, row) for row in rows]
        env = self.env
        times = [row.timestamp for row in rows]
        if min(times) < 0:
            kept = [row for row in rows if row.timestamp >= 0]
            env.metrics.dropped_negative += len(rows) - len(kept)
            rows = kept
        self._advance(max(times))
        out.extend(rows)

    def _advance(self, to_ms: int) -> None:
        """Move the time of the task's processors; it never goes back."""
        if self.time is not None and to_ms > self.time.stream_ms:
            self.time.stream_ms = to_ms


class Exit(Operator):
    """The last operator before a topic. `shared`: other steps may still change keys and values of rows, so the topic gets copies; rows
    become bytes only after the chunk."""

    def __init__(
        self, node: str, env: TaskEnvironment, topic: str, outbox: Outbox, *, comes_back: bool, shared: bool
    ) -> None:
        super().__init__(node, env)
        self._topic = topic
        self._outbox = outbox
        self._shared = shared
        self._comes_back = comes_back  # the topic is an input of the same topology

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        topic, outbox = self._topic, self._outbox
        leaving = outbox.rows
        if self._shared:
            rows = [own_row(row) for row in rows]
        for row in rows:  # mostly one row: a loop costs less than a list comprehension
            leaving.append(new_output((topic, row)))
        if self._comes_back and outbox.queues is not None:
            outbox.queues.add(topic, rows)


class Results(Operator):
    """The last operator of a chain: its rows are what the task gives."""

    def __init__(self, node: str, env: TaskEnvironment, outbox: Outbox) -> None:
        super().__init__(node, env)
        self._outbox = outbox

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        self._outbox.rows.extend(rows)


class ToInternalTopic(Operator):
    """The last operator before a repartition topic. `needs_key`: rows whose key is None are dropped; `counted`: and counted. `shared` as in Exit."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        topic: str,
        outbox: Outbox,
        *,
        needs_key: bool,
        counted: bool,
        shared: bool,
    ) -> None:
        super().__init__(node, env)
        self._topic = topic
        self._outbox = outbox
        self._needs_key = needs_key
        self._counted = counted
        self._shared = shared

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        if self._needs_key:
            kept = [row for row in rows if row.key is not None]
            if self._counted:
                self.env.metrics.dropped_null += len(rows) - len(kept)
            rows = kept
        queues = self._outbox.queues
        if queues is not None:
            queues.add(self._topic, rows)
        else:
            topic = self._topic
            if self._shared:
                rows = [own_row(row) for row in rows]
            self._outbox.rows.extend([new_output((topic, row)) for row in rows])
