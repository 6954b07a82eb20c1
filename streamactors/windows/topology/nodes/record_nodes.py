"""The nodes of a stream that keep no state, its end in a topic, and its way through a repartition topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.coroutine_results import RefusingCoroutines
from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.record_steps import AsRecords, FilterRecords, KeyBy, MapRecords
from streamactors.windows.operators.stream_steps import (
    FilterNotRecords,
    FlatMapRecords,
    FlatMapValues,
    MapToRecords,
    MapValues,
    PassOn,
    Peek,
)
from streamactors.windows.topology.edges import Exit, Results, ToInternalTopic
from streamactors.windows.topology.model import Build, TopologyNode

OPERATORS: dict[str, type[MapRecords]] = {
    "map": MapToRecords,
    "flat-map": FlatMapRecords,
    "map-values": MapValues,
    "flat-map-values": FlatMapValues,
    "filter": FilterRecords,
    "filter-not": FilterNotRecords,
    "select-key": KeyBy,
    "peek": Peek,
}

_ANSWER_IS_NOT_EMITTED = ("filter", "filter-not", "peek")


class RecordNode(TopologyNode):
    """A function on records; `kind` is a key of OPERATORS."""

    def __init__(self, name: str, kind: str, fn: Callable[[Any], Any]) -> None:
        super().__init__(name)
        self.kind = kind
        self.fn = fn

    def operator(self, build: Build) -> Operator:
        fn = RefusingCoroutines(self.fn, self.kind) if self.kind in _ANSWER_IS_NOT_EMITTED else self.fn
        return OPERATORS[self.kind](self.name, build.env, fn)


class MergeNode(TopologyNode):
    """Where rows of several parents meet."""

    def operator(self, build: Build) -> Operator:
        return PassOn(self.name, build.env)


class AsRecordsNode(TopologyNode):
    """Makes records of the results of windows."""

    def operator(self, build: Build) -> Operator:
        return AsRecords(self.name, build.env)


class SinkNode(TopologyNode):
    """A topic that rows leave to. `key` and `value`: how they become bytes; the operators do not see them. `key_changed`: a step may have given the
    rows other keys than they were read with."""

    def __init__(self, name: str, topic: str, key: Any = None, value: Any = None, *, key_changed: bool = False) -> None:
        super().__init__(name)
        self.key_changed = key_changed
        self.topic = topic
        self.key = key
        self.value = value

    def operator(self, build: Build) -> Operator:
        comes_back = self.topic in build.topology.sources
        return Exit(self.name, build.env, self.topic, build.outbox, comes_back=comes_back, shared=self.shares_rows)


class ResultNode(TopologyNode):
    """The end of a chain."""

    def operator(self, build: Build) -> Operator:
        return Results(self.name, build.env, build.outbox)


class RepartitionNode(TopologyNode):
    """The way into a repartition topic. `needs_key`, `counted` as in ToInternalTopic."""

    goes_round = True

    def __init__(self, name: str, topic: str, *, needs_key: bool, counted: bool) -> None:
        super().__init__(name)
        self.topic = topic
        self.needs_key = needs_key
        self.counted = counted

    def operator(self, build: Build) -> Operator:
        return ToInternalTopic(
            self.name,
            build.env,
            self.topic,
            build.outbox,
            needs_key=self.needs_key,
            counted=self.counted,
            shared=self.shares_rows,
        )
