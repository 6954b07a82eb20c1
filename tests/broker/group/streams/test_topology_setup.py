"""Internal topics and numbers of tasks; the texts are those of Apache Kafka."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.streams.streams_group import Topology
from streamactors.broker.group.streams.streams_record import CopartitionGroup, Subtopology
from streamactors.broker.group.streams.topology_setup import ConfiguredTopology, Status, configure
from tests.broker.group.streams.simulated_streams import COUNTS, internal, part


def setup(topics: dict[str, int], *parts: Subtopology) -> ConfiguredTopology:
    return configure(Topology(1, {each.subtopology_id: each for each in parts}), topics.get)


def test_a_repartition_topic_has_the_partitions_of_what_is_read_before() -> None:
    found = configure(COUNTS, {"in": 4}.get)
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("r", 4), ("log", 4)]
    assert found.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: r, log")
    assert [part.number_of_tasks for part in found.subtopologies.values()] == [4, 4]
    assert [part.is_stateful for part in found.subtopologies.values()] == [False, True]


def test_a_topology_is_ready_when_its_topics_are_there() -> None:
    found = configure(COUNTS, {"in": 4, "r": 4, "log": 4}.get)
    assert (found.problem, found.to_create) == (None, ())


def test_missing_source_topics_are_named_up_to_three() -> None:
    found = setup({}, part("0", ("d", "c", "b", "a")))
    assert found.problem == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 1 additional topics are missing.",
    )


def test_an_existing_internal_topic_with_other_partitions_is_refused() -> None:
    found = configure(COUNTS, {"in": 4, "r": 4, "log": 3}.get)
    why = "Existing topic log has different number of partitions: expected 4, found 3"
    assert found.problem == (Status.INCORRECTLY_PARTITIONED_TOPICS, why)


def test_copartitioned_topics_need_equally_many_partitions() -> None:
    both = (CopartitionGroup((0, 1), (), ()),)
    found = setup({"a": 2, "b": 3}, part("0", ("a", "b"), together=both))
    why = "Following topics do not have the same number of partitions: [{a=2, b=3}]"
    assert found.problem == (Status.INCORRECTLY_PARTITIONED_TOPICS, why)


def test_a_flexible_repartition_topic_follows_its_copartition_group() -> None:
    together = (CopartitionGroup((0,), (), (0,)),)
    first = part("0", ("a",), sinks=("r",))
    found = setup({"a": 2, "b": 6}, first, part("1", ("b",), repartitions=(internal("r"),), together=together))
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("r", 6)]
    fixed = part("1", ("b",), repartitions=(internal("r", 3),), together=together)
    assert setup({"a": 2, "b": 6}, first, fixed).problem == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [6] of the source topic.",
    )


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([part("0", sinks=("r",), repartitions=(internal("r"),))], "loops in the topology"),
        ([part("0", ("a",), repartitions=(internal("r"),))], "never used as a sink topic"),
        ([part("0", (), ("log",))], "No source topics found for subtopology 0"),
    ],
)
def test_a_topology_that_no_topics_could_fit_is_refused(parts: list[Subtopology], why: str) -> None:
    with pytest.raises(Refusal, match=why) as refused:
        setup({"a": 1}, *parts)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
