"""The grace of windows whose rows pass through a repartition topic, where one late instance makes the rows of all its partitions late."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.windows.definitions.windows import UnlimitedWindows, grace_of
from streamactors.windows.topology.model import SourceNode, Topology, TopologyNode, above
from streamactors.windows.topology.nodes.aggregate_nodes import AggregateNode


def graces_of(nodes: Iterable[TopologyNode]) -> dict[str, int]:
    """Return the grace of each aggregation in windows, by its name, in ms."""
    found = {}
    for node in nodes:
        windows = node.windowing.windows if isinstance(node, AggregateNode) else None
        if windows is not None and not isinstance(windows, UnlimitedWindows):
            found[node.name] = grace_of(windows)
    return found


def graces_after_repartition(topology: Topology) -> dict[str, int]:
    """Return as `graces_of`, for the aggregations whose rows come out of a repartition topic."""
    return graces_of(
        node for node in topology.nodes if any(isinstance(each, SourceNode) and each.internal for each in above(node))
    )
