"""A capsule: the records that a group read in a span of time, its offsets, its state, and the topics they belong to.

Pure values without an owner. Times are ms since 1970."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from streamactors.engine.planning.plan import flat_of

if TYPE_CHECKING:
    from streamactors.dsl.runnable import RunnableGraph

Headers = tuple[tuple[str, "bytes | None"], ...]


class CapturedRecord(NamedTuple):
    """A record as it was in its topic. `timestamp_ms` -1: it has none. `value` None: a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> str:
        """The topic, partition and offset: `orders-0@17`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class Kind(StrEnum):
    """What a topic is to the group."""

    INPUT = "input"
    """The group reads it: records of the span."""
    TABLE = "table"
    """The group reads it, and it is compacted: the newest record of each key before the span, and the records of the span."""
    CHANGELOG = "changelog"
    """State of the group: the newest entry of each key before the span, and the newest one of all."""
    REPARTITION = "repartition"
    """Rows on their way between two parts of the group's graph: those that are not committed."""
    OTHER = "other"
    """The graph names it: its settings, without records."""


@dataclass(frozen=True, slots=True)
class CapturedTopic:
    """A topic: its settings, and what it is to the group."""

    name: str
    kind: Kind
    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Slice:
    """A partition: what was captured of it. `begin` to `end`: the offsets of the span; `records` may begin before (tables, changelogs)."""

    topic: str
    partition: int
    begin: int
    end: int
    log_start: int
    """The first offset that the partition still had."""
    committed: int | None
    """The group's committed offset; None: it has none."""
    records: tuple[CapturedRecord, ...]

    @property
    def name(self) -> str:
        """The partition: `orders-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def in_span(self) -> tuple[CapturedRecord, ...]:
        """The records of the span."""
        return tuple(record for record in self.records if record.offset >= self.begin)

    @property
    def is_behind(self) -> bool:
        """True if the group has read nothing of the span yet."""
        return self.committed is not None and self.committed <= self.begin


@dataclass(frozen=True, slots=True)
class GraphIdentity:
    """Which graph the group ran. `source`: SHA-256 of the file of its module, "" where that is not known."""

    name: str
    stages: tuple[str, ...]
    source: str = ""

    @classmethod
    def of(cls, name: str, graph: RunnableGraph[Any]) -> Self:
        """Return the identity of a graph that MODULE:GRAPH names."""
        import sys

        where = name.rpartition(":")[0]
        module = sys.modules.get(Path(where).stem if where.endswith(".py") else where)
        file = getattr(module, "__file__", None)
        source = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
        return cls(name, tuple(node.label for node in flat_of(graph.module).nodes), source)


@dataclass(frozen=True, slots=True)
class Capsule:
    """Everything that a replay needs. `since_ms`: the begin of the span."""

    group: str
    cluster: str
    taken_ms: int
    since_ms: int
    committed_only: bool
    """True if records of open and aborted transactions were left out, as the group reads."""
    topics: tuple[CapturedTopic, ...]
    slices: tuple[Slice, ...]
    graph: GraphIdentity | None = None
    redacted_by: str = ""
    """The name of the function that changed the records; "": they are as they were."""
    notes: tuple[str, ...] = ()
    """What is not in the capsule, and why: sentences."""

    def of(self, *kinds: Kind) -> list[Slice]:
        """Return the slices of the topics of these kinds."""
        names = {topic.name for topic in self.topics if topic.kind in kinds}
        return [each for each in self.slices if each.topic in names]

    @property
    def records(self) -> int:
        """The number of records of the span that the group reads."""
        return sum(len(each.in_span) for each in self.of(Kind.INPUT, Kind.TABLE))
