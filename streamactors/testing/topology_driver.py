"""TopologyDriver: runs a topology of several topics row by row, without threads or brokers.

Owner: the test. It corresponds to TopologyTestDriver of Kafka Streams: the rows go in as they are piped, repartition topics
are in memory, and only `advance_wall_clock` moves the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.definitions.blueprint import Semantics
from streamactors.windows.definitions.duration import Duration, to_ms
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.record import LateRecord, Record, RecordContext
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.reading import view_of
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.topics import TopologyTopics, topology_factory


class TopologyDriver:
    """`build(topics)` makes the topology from `topics.stream(…)` and `topics.table(…)`.

    What it returns (a stream, a table, or a dict of them by name) goes to the topic "output", or to the topics of these names,
    beside what the topology writes with `to`. `semantics`: of the steps that are not given one. `idle_after` (ms, a timedelta or a text): as in
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
        self._now_ms: int = 0
        topics = TopologyTopics(semantics)
        _send(build(topics))
        self._topology = topics.topology
        self._factory = topology_factory(
            self._topology,
            serdes=serdes or Serdes(),
            keep_late=True,
            changelog=True,
            idle_after_ms=None if idle_after is None else to_ms(idle_after, "idle_after", minimum=1),
            on_failure=on_failure,
            now_ms=lambda: self._now_ms,
        )
        self._identity = identity
        self._task = self._factory(identity)
        self.started: list[Output] = self._task.start()
        """What processors forwarded when they were started."""
        self._offsets: dict[str, int] = {}
        self._last_input_ms = 0
        self._late: list[LateRecord] = []

    def pipe(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> list[Output]:
        """Process one row of a topic; return what left, in order: Output(topic, record).

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
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        context = RecordContext(topic, self._identity.partition, offset, tuple(headers))
        self._last_input_ms = self._now_ms
        self._task.process_into([Record(key, value, timestamp, context)], out)

    def pipe_all(self, records: Iterable[Record]) -> list[Output]:
        """Process records as one chunk; the context of each names its topic."""
        self._last_input_ms = self._now_ms
        return self._task.process_chunk(list(records))

    def advance_wall_clock(self, by: Duration) -> list[Output]:
        """Advance the wall clock by `by` (ms, a timedelta or a text) without input; return the outputs."""
        self._now_ms += to_ms(by, "advance_wall_clock")
        return self._task.wall_clock(self._now_ms) + self._task.idle(self._now_ms - self._last_input_ms)

    def end_of_input(self) -> list[Output]:
        """End the input; return everything that was held."""
        return self._task.end_of_input()

    def store(self, name: str) -> Any:
        """Return a view of the table of that name, or the store of a processor. Raises KeyError naming the stores there are."""
        kept = self._task.stateful(name)
        if isinstance(kept, StateStore):
            return kept
        node = self._topology.stores.get(name) or next((n for n in self._topology.nodes if n.name == name), None)
        if node is None:
            raise KeyError(f"no store {name!r}; this topology has {sorted(self._task.stores)}")
        return view_of(self._task.operator(node.shown_as or node), self._factory.serdes)

    def changes(self) -> list[Change]:
        """Return the changelog entries since the last call, as a commit would write them."""
        return self._task.changes()

    def restart(self, changes: Iterable[Change]) -> None:
        """Continue with a new task, restored from the entries that `changes` returned, oldest first."""
        self._task = self._factory(self._identity)
        self._task.restore(changes)
        self.started = self._task.start()
        self._last_input_ms = self._now_ms

    @property
    def dropped(self) -> int:
        """Rows dropped by any operator, one for each row and operator, as Kafka Streams' dropped-records-total."""
        return self._task.metrics.dropped

    @property
    def late(self) -> list[LateRecord]:
        """The rows dropped because they were late."""
        self._late.extend(self._task.take_late())
        return list(self._late)

    @property
    def metrics(self) -> TaskMetrics:
        """The metrics of the task, under Kafka Streams' names."""
        return self._task.metrics


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
