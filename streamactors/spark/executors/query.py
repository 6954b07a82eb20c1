"""ShippedQuery: what a parcel of a query holds, and what the processes of Spark that open it keep: connections, tasks, the planner."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from weakref import WeakValueDictionary

from streamactors.collector import collecting_seldom
from streamactors.kafka.client.ranges import RangeReader
from streamactors.spark.executors.folders import folder_at
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.executors.program import KeptTasks, Program
from streamactors.spark.executors.ranges import Range
from streamactors.spark.executors.states import States
from streamactors.spark.executors.topic_end import TopicEnd, Writers, counted
from streamactors.spark.executors.two_kinds import LATE, ROW, KindOfRow
from streamactors.spark.rows import Rows, has_arrow
from streamactors.spark.shipping.task_errors import told_in_a_sentence

ROWS: Final = 4_096
"""The number of rows that become one record batch."""

_readers: dict[str, RangeReader] = {}
"""The connections of this worker process: one per broker and settings, used by one task at a time."""

_writers: Final = Writers()
"""The writers of this worker process, for the same reason: Spark keeps its workers when a query ends, and each run has another parcel."""

_latest: Final[WeakValueDictionary[str, ShippedQuery]] = WeakValueDictionary()
"""The query that has run last over each folder of states. Only that one keeps its tasks."""


class ShippedQuery:
    """One query in a process of Spark. `schema`: of the rows that Spark gets: results, late rows, or both (two_kinds.py)."""

    def __init__(self, plans: Plans, program: Program, schema: Any, topic: TopicEnd | None = None) -> None:
        self._plans = plans
        self._program = program
        self._schema = schema
        self._topic = topic

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_plans", "_program", "_schema", "_topic")}

    @cached_property
    def planner(self) -> Planner:
        """The planner, in the driver's source process."""
        return Planner(self._plans)

    @cached_property
    def _kept(self) -> KeptTasks:
        before = _latest.get(self._plans.state_folder)
        if before is not None:
            before.__dict__.pop("_kept", None)  # an earlier run of the same query, which has ended
        _latest[self._plans.state_folder] = self
        return KeptTasks()

    @cached_property
    def _states(self) -> States | None:
        return States(folder_at(self._plans.state_folder)) if self._plans.windows else None

    def read(self, packed: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the rows of a range (`Range.packed`) as record batches, in a worker."""
        with collecting_seldom(), told_in_a_sentence():
            yield from self._rows(packed)

    def _rows(self, packed: tuple[Any, ...]) -> Iterator[Any]:
        what = Range.unpacked(packed)
        outputs = self._program.run(what, self._reader.read, self._states, self._kept)
        topic = self._topic
        if topic is not None and topic.takes_all:
            yield from counted(what, topic.write(what, outputs, _writers) or 0, self._schema)
            return
        if topic is not None:
            outputs = topic.sparks(what, outputs, _writers)
        kinds = self._kinds()
        for output in outputs:
            yield from kinds[output.late].add(output.rows)
        for kind in kinds:
            yield from kind.rest()

    def _kinds(self) -> tuple[_Gathered, _Gathered]:
        """Return what results and late rows become."""
        topic = self._topic
        is_one_kind = self._program.late is None or (topic is not None and (topic.results or topic.late))
        if is_one_kind:
            every = _Gathered(Rows(self._schema))
            return every, every
        return _Gathered(KindOfRow(self._schema, ROW)), _Gathered(KindOfRow(self._schema, LATE))

    @property
    def _reader(self) -> RangeReader:
        plans = self._plans
        name = repr((sorted(plans.settings.client_properties().items(), key=str), plans.skip_lost, plans.to_skip))
        found = _readers.get(name)
        if found is None:
            found = _readers[name] = RangeReader(plans.settings, skip_lost=plans.skip_lost, to_skip=plans.to_skip)
        return found


class _Gathered:
    """Rows of one kind, gathered until they are enough for a record batch."""

    def __init__(self, rows: Rows | KindOfRow) -> None:
        self._rows = rows
        self._held: list[Any] = []

    def add(self, given: list[Any]) -> Iterator[Any]:
        """Add rows, or Arrow data; yield what is ready."""
        if has_arrow(given):
            yield from self.rest()
            yield from self._rows.batches(given)
            return
        self._held += given
        if len(self._held) >= ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """Yield the rows that are still held."""
        held, self._held = self._held, []
        if held:
            yield from self._rows.batches(held)
