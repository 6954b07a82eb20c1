"""Topics: a topology of streams and tables over sources of Records, in the memory of one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamactors.dsl.source import Source
from streamactors.durations import Duration, whole_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.intake import Intake
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.operators.record_steps import as_record
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

_RESULT = "\x00result"


class Topics(TopologyTopics):
    """The beginning of a topology over sources in this process; over Kafka it is `Consumer.topics`."""

    def __init__(self, sources: Mapping[str, Source[Any, Any]], semantics: Semantics = "strict") -> None:
        super().__init__(semantics)
        if not isinstance(sources, Mapping):
            raise BuildError(
                f"Topics.in_memory: the sources are {sources!r}; give a dict of them by the names of their topics"
            )
        for name, source in sources.items():
            if not isinstance(source, Source):
                raise BuildError(f"Topics.in_memory: {name!r} is {source!r}; give a Source of Records")
        self._sources = dict(sources)

    @classmethod
    def in_memory(cls, sources: Mapping[str, Source[Any, Any]], *, semantics: Semantics = "strict") -> Topics:
        """Return the topics of a topology, by name; each is a source of Records.

        The rows of several sources are processed in the order of their timestamps, so each source should be sorted by them; a
        source that has no row ready is waited for. Global tables are filled first. Repartition topics are in memory."""
        return cls(sources, semantics)

    def source(self, result: TopologyStream | TopologyTable, *, idle_after: Duration | None = None) -> Source[Any, Any]:
        """The rows of a stream or table of this topology, as a Source: Record, or WindowedRecord where the rows come from windows.

        `idle_after` (seconds, a timedelta or a string) as in windowed_by.

        Emits when: a row leaves the topology.   Backpressures when: downstream does.
        Completes when: all sources have completed, and what the end closes is out.   Cancels when: downstream cancels."""
        if not isinstance(result, TopologyStream | TopologyTable) or result.topology is not self.topology:
            raise BuildError(f"topics.source: {result!r} is not a stream or table of this topology")
        name = f"{_RESULT}-{len(self.topology.nodes)}"  # each source has its own
        result.to(name)
        outputs = self.outputs(idle_after=idle_after).filter(lambda output: output.topic == name)
        return outputs.map(lambda output: output.record)

    def outputs(self, *, idle_after: Duration | None = None) -> Source[Any, Any]:
        """Everything that the topology writes with `to`: Output(topic, record). `idle_after` (seconds, a timedelta or a string) as in windowed_by."""
        topology = self.topology
        wanted = {topic: source for topic, source in topology.sources.items() if not source.internal}
        missing = sorted(wanted.keys() - self._sources.keys())
        if missing or not wanted:
            raise BuildError(f"Topics.in_memory has no source for {missing}; it has {sorted(self._sources)}")
        idle_ms = None if idle_after is None else whole_ms(idle_after, "idle_after", minimum=1)
        factory = TaskFactory(topology, Intake(changelog=False), idle_ms)
        ordered = self._merged([topic for topic, source in wanted.items() if source.partitioned])
        filled = self._merged([topic for topic, source in wanted.items() if not source.partitioned])
        rows: Any = ordered if filled is None else filled if ordered is None else filled.concat(ordered)
        stage = WindowStage(factory)
        return rows._via(stage) if topology.late is None else rows._fan_out(stage, topology.late)  # type: ignore[no-any-return]

    def _merged(self, topics: list[str]) -> Any:
        """Return the rows of topics in the order of their timestamps, None without topics."""
        tagged: list[Any] = [self._sources[topic].map(_of_topic(topic)) for topic in topics]
        if len(tagged) < 2:
            return tagged[0] if tagged else None
        return tagged[0].merge_sorted(*tagged[1:], key=lambda row: row.timestamp)


def _of_topic(topic: str) -> Callable[[Any], Record]:
    """Return the function that gives each row its place in a topic."""

    def place(row: Any) -> Record:
        record = as_record(f"topic {topic}", row)
        context = record.context
        offset, headers = (0, ()) if context is None else (context.offset, context.headers)
        return record.replace(context=RecordContext(topic, 0, offset, headers))

    return place
