"""TopologyDriver: runs a topology of several topics row by row, without threads or brokers.

Owner: the test. It corresponds to TopologyTestDriver of Kafka Streams: the rows go in as they are piped, repartition topics
are in memory, and only `advance_wall_clock` moves the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamactors.durations import Duration
from streamactors.errors import BuildError
from streamactors.testing.task_driver import TaskDriver
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import TaskIdentity
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics


class TopologyDriver(TaskDriver):
    """`build(topics)` makes the topology from `topics.stream(…)` and `topics.table(…)`.

    What it returns (a stream, a table, or a dict of them by name) goes to the topic "output", or to the topics of these names,
    beside what the topology writes with `to`. `semantics`: of the steps that are not given one. `idle_after` (seconds, a timedelta or a string): as in
    `windowed_by`."""

    def __init__(
        self,
        build: Callable[[TopologyTopics], Any],
        *,
        semantics: Semantics = "strict",
        serdes: Serdes | None = None,
        idle_after: Duration | None = None,
        on_failure: Callable[[OperatorFailed], bool] | None = None,
        identity: TaskIdentity = TaskIdentity("test"),
    ) -> None:
        if not callable(build):
            raise BuildError(
                f"TopologyDriver expects a function of the topics that builds a topology, got {type(build).__name__}"
            )
        topics = TopologyTopics(semantics)
        _send(build(topics))
        topics.topology.idle_after(idle_after)
        super().__init__(
            lambda now_ms: TaskFactory(
                topics.topology,
                serdes=serdes or Serdes(),
                keep_late=True,
                changelog=True,
                on_failure=on_failure,
                now_ms=now_ms,
            ),
            identity,
        )

    def pipe(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> list[Output]:
        """Process one row of a topic; return its outputs, in order: Output(topic, record).

        Raises the error that ends the task."""
        out: list[Output] = []
        self.pipe_into(topic, key, value, timestamp, out, headers)
        return out

    def pipe_into(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int,
        out: list[Output],
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """As pipe, but append the results to `out`. When it raises, the results before the error are in `out`."""
        self._process(topic, key, value, timestamp, out, headers)


def _send(built: object) -> None:
    """Give what the build function returned a topic to go to."""
    if built is None:
        return
    named = built if isinstance(built, Mapping) else {"output": built}
    for name, each in named.items():
        if not isinstance(each, TopologyStream | TopologyTable):
            raise BuildError(
                f"TopologyDriver: the function returned {each!r}; return a stream, a table, a dict of them, or nothing"
            )
        each.to(name)
