"""The beginning of a topology: its topics as streams and tables."""

from __future__ import annotations

from typing import Any

from streamactors.durations import EventSpan
from streamactors.errors import BuildError
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.topology.model import SourceNode, Topology
from streamactors.windows.topology.nodes.table_nodes import table_source
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import GlobalTable, TopologyTable


class TopologyTopics:
    """The topics of one topology. `semantics`: that of its steps; a step may be given another."""

    def __init__(self, semantics: Semantics = "strict") -> None:
        self.topology = Topology(semantics)

    def stream(self, topic: str, *, key: Any = None, value: Any = None, timestamp: Any = None) -> TopologyStream:
        """The rows of a topic. `key`, `value`: a Serde or its name; `timestamp`: from the Record to ms, default its own."""
        return TopologyStream(self.topology, self._source("stream", topic, key, value, timestamp))

    def table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
        name: str | None = None,
        history: EventSpan | None = None,
        ttl: EventSpan | None = None,
    ) -> TopologyTable:
        """The latest row of each key of a topic; None deletes. Rows whose key is None are dropped and counted.

        `name`: of its store; without a name the table has a store only if a step reads it. `history` (ms, a timedelta or a string): keep older
        versions for so long (stream time), so that a join finds the version that was valid at a row's time; older rows are refused. `ttl`
        (the same): an entry expires when the stream time of the task reaches its timestamp + ttl; then it is no longer read, and its deletion is
        forwarded after the row that has moved the time."""
        source = self._source("table", topic, key, value, timestamp)
        node = table_source(self.topology, "table", name, history, ttl)
        return TopologyTable(self.topology, self.topology.add(node, source))

    def global_table(
        self, topic: str, *, key: Any = None, value: Any = None, timestamp: Any = None, name: str | None = None
    ) -> GlobalTable:
        """A table of which every task has all partitions. It is filled before the first row, then follows its topic."""
        if topic in self.topology.sources:
            raise BuildError(f"global_table: {topic!r} is read as a stream or table already; read it once")
        source = self._source("global_table", topic, key, value, timestamp)
        source.partitioned = False
        node = table_source(self.topology, "global-table", name, None)
        node.materialize()
        node.topic = topic
        self.topology.add(node, source)
        return GlobalTable(self.topology, node)

    def _source(self, where: str, topic: str, key: Any, value: Any, timestamp: Any) -> SourceNode:
        if not isinstance(topic, str) or not topic:
            raise BuildError(f"{where}: the topic is {topic!r}; give a name that is not empty")
        known = self.topology.sources.get(topic)
        if known is not None:
            if known.internal:
                raise BuildError(f"{where}: {topic!r} is a repartition topic of this topology; give the stream itself")
            for part, first, now in [
                ("key", known.key, key),
                ("value", known.value, value),
                ("timestamp", known.timestamp, timestamp),
            ]:
                if now is not None and now != first:
                    raise BuildError(
                        f"{where}: the topology reads {topic!r} already, with {part}={first!r}; a topic is read once, so give {part}={now!r} where it "
                        f"is named first, and leave it out here"
                    )
            return known
        source = SourceNode(self.topology.named(None, "source"), topic, key=key, value=value, timestamp=timestamp)
        self.topology.sources[topic] = self.topology.add(source)
        return source
