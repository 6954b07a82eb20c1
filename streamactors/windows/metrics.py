"""The metrics of a task, under Kafka Streams' names.

Owner: WindowTask. The hot path increments ints; `samples` computes the rest and returns every metric with its name, group
and tags in Kafka Streams. An exporter (Prometheus) maps these samples."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streamactors.living import Living

TASK_GROUP: Final = "stream-task-metrics"
NODE_GROUP: Final = "stream-processor-node-metrics"
STATE_GROUP: Final = "stream-state-metrics"
LATE_ROWS: Final = 10
"""So many late rows are kept, to be shown."""
_WINDOW_MS: Final = 30_000
_WINDOWS: Final = 2


class Sample(NamedTuple):
    name: str
    group: str
    tags: tuple[tuple[str, str], ...]
    value: float


class Rate:
    """Events per second over the last 30 to 60 seconds of the clock that the caller of `samples` passes."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []  # (time, total at that time), the oldest first

    def of(self, total: int, now_ms: float) -> float:
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - _WINDOW_MS * (_WINDOWS - 1):
            del marks[0]
        if not marks or now_ms - marks[-1][0] >= _WINDOW_MS / 10:
            marks.append((now_ms, total))
        since_ms = now_ms - marks[0][0]
        return (total - marks[0][1]) * 1000.0 / since_ms if since_ms > 0 else 0.0


@dataclass(slots=True)
class Spread:
    """Average and maximum of a size since the last `take`."""

    _sum: float = 0.0
    _count: int = 0
    _max: float = float("nan")

    def record(self, value: int) -> None:
        self._sum += value
        self._count += 1
        if not value <= self._max:  # also the first time, when the maximum is NaN
            self._max = value

    def take(self) -> tuple[float, float]:
        """(average, maximum), NaN without a value; starts again."""
        average = self._sum / self._count if self._count else float("nan")
        maximum = self._max
        self._sum, self._count, self._max = 0.0, 0, float("nan")
        return average, maximum


@dataclass(slots=True)
class SuppressMetrics:
    """Metrics of one suppress operator. Buffer sizes are recorded on every change if `detailed`, as Kafka's DEBUG level does."""

    node: str
    store: str
    detailed: bool = False
    emitted: int = 0
    size: Spread = field(default_factory=Spread)
    count: Spread = field(default_factory=Spread)
    rate: Rate = field(default_factory=Rate)

    def record(self, emitted: int, began_ns: int) -> None:
        """Count emitted results."""
        self.emitted += emitted


@dataclass(slots=True)
class EmitMetrics:
    """Metrics of one aggregation that emits on window close."""

    node: str
    emitted: int = 0
    rate: Rate = field(default_factory=Rate)
    latency: Spread = field(default_factory=Spread)
    """Milliseconds for emitting closed windows."""

    def record(self, emitted: int, began_ns: int) -> None:
        """Count results that were emitted between `began_ns` of the performance counter and now."""
        if emitted:
            self.emitted += emitted
            self.latency.record((time.perf_counter_ns() - began_ns) // 1_000_000)


@dataclass(slots=True, weakref_slot=True, eq=False)
class TaskMetrics:
    """Metrics of one task. A row is counted as dropped once per window that refuses it, or once for a missing key, a missing
    value or a negative timestamp."""

    task_id: str = "0_0"
    rows: int = 0
    """Rows that the task has taken."""
    dropped_late: int = 0
    dropped_null: int = 0
    dropped_negative: int = 0
    dropped_stale: int = 0
    """Updates that are not the newest version of a key, answers to a row that has changed since, rows without a foreign key."""
    late_rows: deque[tuple[Any, int, int]] = field(default_factory=lambda: deque(maxlen=LATE_ROWS))
    """Key, timestamp and stream time of the last late rows."""
    suppressed: list[SuppressMetrics] = field(default_factory=list)
    emitting: list[EmitMetrics] = field(default_factory=list)
    _rate: Rate = field(default_factory=Rate)

    @property
    def dropped(self) -> int:
        return self.dropped_late + self.dropped_null + self.dropped_negative + self.dropped_stale

    def samples(self, now_ms: float) -> Iterator[Sample]:
        """Every metric; rates are per second since about half a minute before `now_ms`, of any clock."""
        task = ("task-id", self.task_id)
        yield Sample("dropped-records-total", TASK_GROUP, (task,), self.dropped)
        yield Sample("dropped-records-rate", TASK_GROUP, (task,), self._rate.of(self.dropped, now_ms))
        for suppress in self.suppressed:
            node = (task, ("processor-node-id", suppress.node))
            yield Sample("suppression-emit-total", NODE_GROUP, node, suppress.emitted)
            yield Sample("suppression-emit-rate", NODE_GROUP, node, suppress.rate.of(suppress.emitted, now_ms))
            state = (task, ("in-memory-suppression-state-id", suppress.store))
            for what, spread in (("size", suppress.size), ("count", suppress.count)):
                average, maximum = spread.take()
                yield Sample(f"suppression-buffer-{what}-avg", STATE_GROUP, state, average)
                yield Sample(f"suppression-buffer-{what}-max", STATE_GROUP, state, maximum)
        for emitting in self.emitting:
            node = (task, ("processor-node-id", emitting.node))
            yield Sample("emitted-records-total", NODE_GROUP, node, emitting.emitted)
            yield Sample("emitted-records-rate", NODE_GROUP, node, emitting.rate.of(emitting.emitted, now_ms))
            average, maximum = emitting.latency.take()
            yield Sample("emit-final-latency-avg", NODE_GROUP, node, average)
            yield Sample("emit-final-latency-max", NODE_GROUP, node, maximum)


LIVE_TASKS: Final[Living[TaskMetrics]] = Living()
"""The tasks of all running graphs, for exporters."""
