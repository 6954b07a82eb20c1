"""The sub-topologies of a topology: only repartition topics connect them.

The topics of one sub-topology have equal numbers of partitions; another sub-topology may have another number. A global table belongs to
every sub-topology."""

from __future__ import annotations

from streamactors.windows.topology.model import Topology, TopologyNode, connected


def sub_topologies_of(topology: Topology) -> list[Topology]:
    """Return each sub-topology as a topology of the same nodes. A topology that has one is returned as it is."""
    everywhere = _global_nodes(topology)
    numbers = connected(topology, without=everywhere)
    kept = sorted({number for node, number in numbers.items() if node not in everywhere})
    if len(kept) < 2:
        return [topology]
    found = []
    for number in kept:
        sub = Topology(topology.semantics)
        sub.prefix, sub.late = topology.prefix, topology.late
        sub.nodes = [node for node in topology.nodes if node in everywhere or numbers[node] == number]
        inside = set(sub.nodes)
        sub.sources = {topic: source for topic, source in topology.sources.items() if source in inside}
        sub.stores = {store: node for store, node in topology.stores.items() if node in inside}
        sub.co_partitioned = topology.co_partitioned
        found.append(sub)
    return found


def _global_nodes(topology: Topology) -> frozenset[TopologyNode]:
    """Return the sources of global tables, and the tables."""
    sources = [source for source in topology.sources.values() if not source.partitioned]
    return frozenset([*sources, *(child for source in sources for child in source.children)])
