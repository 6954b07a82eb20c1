"""What the tests of partitioned sources share."""

from __future__ import annotations

from streamactors import Flow


def merged(source, breadth=16, through=None):
    """The records of all sub-sources as one stream, each sub-source through a flow of its own."""
    through = Flow.identity() if through is None else through
    return source.flat_map_merge(breadth, lambda pair: pair[1].via(through))
