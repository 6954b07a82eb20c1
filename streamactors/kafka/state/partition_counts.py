"""How many partitions the topics of a topology have: the check of the topics that one sub-topology reads, and the numbers of its repartition topics.

The tasks of a sub-topology read the partitions of one number of all its topics, so these topics need equal numbers of partitions. The topics
of another sub-topology may have another number, and where no step keeps a state (streams that are merged, for example) each topic may have its own: no
rows of two topics meet there. A repartition topic gets the number of the other topics that its sub-topology reads. If all of these are repartition
topics, each gets the largest number of the topics whose rows they carry. Kafka Streams has the same rule, but accepts different numbers also for
streams that are merged before a state, where it keeps rows of equal keys apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamactors.kafka.errors import TopicError
from streamactors.windows.topology.model import SourceNode, Topology, above
from streamactors.windows.topology.nodes.record_nodes import RepartitionNode
from streamactors.windows.topology.sub_topologies import sub_topologies_of


def partition_counts(
    topology: Topology, given: Mapping[str, int], keeps_state: Callable[[Topology], bool]
) -> dict[str, int]:
    """Return the number of partitions of each repartition topic; `given`: those of the other topics. `keeps_state(sub_topology)`: a step of it does.

    Raises TopicError if topics that one sub-topology reads have different numbers."""
    counts = dict(given)
    carried = {node.topic: _topics_above(node) for node in topology.nodes if isinstance(node, RepartitionNode)}
    unsettled = []
    for sub_topology in sub_topologies_of(topology):
        topics = {topic for topic, source in sub_topology.sources.items() if source.partitioned}
        known = {topic: counts[topic] for topic in topics if topic in given}
        if len(set(known.values())) > 1 and keeps_state(sub_topology):
            raise TopicError(_refusal(topology, known))
        if known:
            counts |= dict.fromkeys(topics - known.keys(), max(known.values()))
        else:
            unsettled.append(topics)
    counts |= {topic: 1 for topics in unsettled for topic in topics}
    for _ in unsettled:  # a topic may carry the rows of another unsettled sub-topology; each round settles at least one
        for topics in unsettled:
            counts |= dict.fromkeys(topics, max(counts[source] for topic in topics for source in carried[topic]))
    return {topic: counts[topic] for topic in carried}


def _refusal(topology: Topology, counts: Mapping[str, int]) -> str:
    """Return the message about topics of one sub-topology that have different numbers."""
    for name, topics in topology.co_partitioned:
        own = {topic: count for topic, count in counts.items() if topic in topics}
        if len(set(own.values())) > 1:
            return (
                f"{name}: {_named(own)}: equal keys would lie in different tasks; give the topics the same number of "
                "partitions, or give one of them new keys with select_key, which repartitions it"
            )
    return (
        f"{_named(counts)}, and their rows are processed by the same tasks, one for each partition number, which keep a state: equal keys would lie "
        "in different tasks; give the topics the same number of partitions, or send all rows through one topic before the state: "
        ".repartition() after the merge"
    )


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{topic} has {count} partitions" for topic, count in sorted(counts.items()))


def _topics_above(node: RepartitionNode) -> frozenset[str]:
    return frozenset(each.topic for each in above(node) if isinstance(each, SourceNode) and each.partitioned)
