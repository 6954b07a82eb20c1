"""What a topology needs: internal topics with their partitions, and the number of tasks of each subtopology.

Owner: the state machine of streams groups. Pure. Source: KIP-1071; Apache Kafka's InternalTopicManager with RepartitionTopics,
CopartitionedTopicsEnforcer and ChangelogTopics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.streams.streams_group import Topology
from streamactors.broker.group.streams.streams_record import InternalTopic, Subtopology

Counts = Callable[[str], int | None]
"""Returns the number of partitions of a topic, None if it does not exist."""

_SHOWN: int = 3


class Status(IntEnum):
    """What a heartbeat answers beside the assignment. The values are on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose topics are known. The internal topics have their numbers of partitions."""

    number_of_tasks: int
    source_topics: frozenset[str]
    repartition_sinks: frozenset[str]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks make sense."""
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The result. `problem` is None if the application can run."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)  # by id, in its order
    to_create: tuple[InternalTopic, ...] = ()
    problem: tuple[Status, str] | None = None


class _NotYet(Exception):
    """The topics that exist do not fit the topology."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


def configure(topology: Topology, partitions_of: Counts) -> ConfiguredTopology:
    """Return what the topology needs. Raises Refusal STREAMS_INVALID_TOPOLOGY if no topics could fit it."""
    try:
        return _configure(topology, partitions_of)
    except _NotYet as problem:
        return ConfiguredTopology(topology.epoch, problem=(problem.status, str(problem)))


def _configure(topology: Topology, partitions_of: Counts) -> ConfiguredTopology:
    parts = topology.subtopologies
    missing = {name for each in parts.values() for name in each.source_topics if partitions_of(name) is None}
    if missing:
        raise _NotYet(Status.MISSING_SOURCE_TOPICS, f"Source topics {_some(sorted(missing))} are missing.")
    decided: dict[str, int] = {}

    def count(name: str) -> int | None:
        found = partitions_of(name)
        return decided.get(name) if found is None else found

    decided |= _repartition_counts(parts.values(), count)
    _enforce_copartitions(parts.values(), decided, count)
    for each in parts.values():
        tasks = _tasks(each, count)
        decided |= {topic.name: tasks for topic in each.changelogs}
    configured = {name: _configured(parts[name], decided, count) for name in sorted(parts)}
    to_create = _to_create(configured, topology, partitions_of)
    problem = None
    if to_create:
        names = _some([topic.name for topic in to_create])
        problem = (Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, configured, to_create, problem)


# -- repartition topics ---------------------------------------------------------------------------------------------


def _repartition_counts(parts: Iterable[Subtopology], count: Counts) -> dict[str, int]:
    """Return the partitions of the repartition topics: as they were asked for, else the most of what is read before."""
    subtopologies = list(parts)
    found = {t.name: t.partitions for each in subtopologies for t in each.repartition_sources if t.partitions}
    while True:
        open_ones = [(each, sink) for each in subtopologies for sink in each.repartition_sinks if sink not in found]
        if not open_ones:
            break
        progress = False
        for each, sink in open_ones:
            known = [found[t.name] for t in each.repartition_sources if t.name in found]
            known += [n for name in each.source_topics if (n := count(name)) is not None]
            if known:
                found[sink], progress = max(known), True
        if not progress:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved."
            )
    if any(topic.name not in found for each in subtopologies for topic in each.repartition_sources):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic."
        )
    return found


def _enforce_copartitions(parts: Iterable[Subtopology], decided: dict[str, int], count: Counts) -> None:
    subtopologies = list(parts)
    sources = [topic for each in subtopologies for topic in each.repartition_sources]
    fixed = {topic.name for topic in sources if topic.partitions}
    flexible = {topic.name for topic in sources if not topic.partitions}
    for each in subtopologies:
        for group in each.copartition_groups:
            names = {each.source_topics[i] for i in group.source_topics}
            names |= {each.repartition_sources[i].name for i in group.repartition_source_topics}
            if names:
                decided |= _same_counts(names, fixed, flexible, count)


def _same_counts(names: set[str], fixed: set[str], flexible: set[str], count: Counts) -> dict[str, int]:
    """Return the partitions of the repartition topics of one group."""
    counts = {name: count(name) or 0 for name in sorted(names)}
    repartition = {name: each for name, each in counts.items() if name in fixed or name in flexible}
    others = {name: each for name, each in counts.items() if name not in repartition}
    mine_fixed = {name: each for name, each in repartition.items() if name in fixed}
    if others:
        wanted = _equal(others, others)
    elif fixed:
        wanted = _equal(
            {name: count(name) or 0 for name in sorted(fixed)}, repartition
        )  # of the whole topology, as there
    else:
        wanted = max(repartition.values())
    for name, each in mine_fixed.items():
        if each != wanted:
            raise _NotYet(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{each}] of repartition topic [{name}] doesn't match number of partitions [{wanted}] of the source topic.",
            )
    return dict.fromkeys(repartition, wanted)


def _equal(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the number that all topics have."""
    if len(set(counts.values())) > 1:
        pairs = ", ".join(f"{name}={each}" for name, each in sorted(shown.items()))
        raise _NotYet(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{pairs}}}]",
        )
    return next(iter(counts.values()))


# -- the result -----------------------------------------------------------------------------------------------------


def _tasks(each: Subtopology, count: Counts) -> int:
    """Return the number of tasks: the most partitions of what the subtopology reads."""
    names = [*each.source_topics, *(topic.name for topic in each.repartition_sources)]
    if not names:
        raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
    return max(count(name) or 0 for name in names)


def _configured(each: Subtopology, decided: Mapping[str, int], count: Counts) -> ConfiguredSubtopology:
    def known(topic: InternalTopic) -> InternalTopic:
        return topic if topic.partitions else topic._replace(partitions=decided[topic.name])

    return ConfiguredSubtopology(
        _tasks(each, count),
        frozenset(each.source_topics),
        frozenset(each.repartition_sinks),
        tuple(map(known, each.repartition_sources)),
        tuple(map(known, each.changelogs)),
    )


def _to_create(
    configured: Mapping[str, ConfiguredSubtopology], topology: Topology, partitions_of: Counts
) -> tuple[InternalTopic, ...]:
    wanted = {t.name: t for each in configured.values() for t in (*each.repartition_sources, *each.changelogs)}
    for name in sorted(topology.required_topics() & wanted.keys()):
        found = partitions_of(name)
        if found is None:
            continue
        topic = wanted.pop(name)
        if found != topic.partitions:
            raise _NotYet(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {found}",
            )
    return tuple(wanted.values())


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
