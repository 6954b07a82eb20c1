"""TaskDriver: what the drivers of windows and of topologies share: one task, fed row by row, without threads or brokers.

Owner: the test. Only `advance_wall_clock` moves the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.durations import Duration, whole_ms
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.record import LateRecord, Record, RecordContext
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.topology.model import TopologyNode
from streamactors.windows.topology.reading import StoreView, view_of
from streamactors.windows.topology.task_factory import TaskFactory


class TaskDriver:
    """Runs the tasks of one factory, one after the other."""

    def __init__(self, factory_of: Callable[[Callable[[], int]], TaskFactory], identity: TaskIdentity) -> None:
        """`factory_of(now_ms)`: makes the factory, for the wall clock of the test."""
        self._now_ms = 0
        self._factory = factory_of(lambda: self._now_ms)
        self._identity = identity
        self._task = self._factory(identity)
        self.started: list[Any] = self._task.start()
        """What processors forwarded when they were started."""
        self._offsets: dict[str, int] = {}
        self._last_input_ms = 0
        self._late: list[LateRecord] = []

    def _process(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int,
        out: list[Any],
        headers: Iterable[tuple[str, bytes | None]],
    ) -> None:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        context = RecordContext(topic, self._identity.partition, offset, tuple(headers))
        self._last_input_ms = self._now_ms
        self._task.process_into([Record(key, value, timestamp, context)], out)

    def pipe_all(self, records: Iterable[Record]) -> list[Any]:
        """Process records as one chunk; return the results in order. The context of each names its topic, where there are several."""
        self._last_input_ms = self._now_ms
        return self._task.process_chunk(list(records))

    def advance_wall_clock(self, by: Duration) -> list[Any]:
        """Advance the wall clock by `by` (seconds, a timedelta or a string) without input; return the results."""
        self._now_ms += whole_ms(by, "advance_wall_clock: by")
        return self._task.wall_clock(self._now_ms) + self._task.idle(self._now_ms - self._last_input_ms)

    def end_of_input(self) -> list[Any]:
        """End the input; return everything that was held."""
        return self._task.end_of_input()

    def store(self, name: str) -> Any:
        """Return a view of the table of that name, or the store of a processor. Raises KeyError naming the stores there are."""
        kept = self._task.stateful(name)
        if isinstance(kept, StateStore):
            return kept
        topology = self._factory.topology
        node = topology.stores.get(name) or next((node for node in topology.nodes if node.name == name), None)
        if node is None:
            raise KeyError(f"no store {name!r}; this topology has {sorted(self._task.stores)}")
        return self._view(node.shown_as or node)

    def _view(self, node: TopologyNode) -> StoreView:
        return view_of(self._task.operator(node), self._factory.serdes)

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
    def late(self) -> list[LateRecord]:
        """The rows dropped because they were late."""
        self._late.extend(self._task.take_late())
        return list(self._late)

    @property
    def dropped(self) -> int:
        """Rows dropped by any operator, one for each row and operator, as Kafka Streams' dropped-records-total."""
        return self._task.metrics.dropped

    @property
    def metrics(self) -> TaskMetrics:
        """The metrics of the task, under Kafka Streams' names."""
        return self._task.metrics
