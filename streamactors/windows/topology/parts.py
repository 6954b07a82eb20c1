"""The parts of a topology that only repartition topics connect; Kafka Streams calls them sub-topologies.

The topics of one part have equal numbers of partitions; those of another part may have others. A global table belongs to every part."""

from __future__ import annotations

from streamactors.windows.topology.model import Node, Topology, connected


def parts_of(topology: Topology) -> list[Topology]:
    """Return a topology for each part; the nodes are the same objects. The given topology itself if it has one part."""
    everywhere = _global_nodes(topology)
    numbers = connected(topology, without=everywhere)
    kept = sorted({number for node, number in numbers.items() if node not in everywhere})
    if len(kept) < 2:
        return [topology]
    parts = []
    for number in kept:
        part = Topology(topology.semantics)
        part.prefix, part.late = topology.prefix, topology.late
        part.nodes = [node for node in topology.nodes if node in everywhere or numbers[node] == number]
        inside = set(part.nodes)
        part.sources = {topic: source for topic, source in topology.sources.items() if source in inside}
        part.stores = {store: node for store, node in topology.stores.items() if node in inside}
        part.co_partitioned = topology.co_partitioned
        parts.append(part)
    return parts


def _global_nodes(topology: Topology) -> frozenset[Node]:
    """Return the sources of global tables, and the tables."""
    sources = [source for source in topology.sources.values() if not source.partitioned]
    return frozenset([*sources, *(child for source in sources for child in source.children)])
