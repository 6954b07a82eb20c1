"""Finds the source that an option names, and packs the query that reads it. Runs in Spark's source process, on the driver's host."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from streamactors.dsl.named import GraphNotFound, load_named
from streamactors.dsl.source import Source
from streamactors.spark.executors.frame import frame_parcel
from streamactors.spark.graph_format.options import FORM, FORMAT, graph_options
from streamactors.spark.schema import row_schema


def parcel_of(options: Mapping[str, str], schema: Any, paths: Iterable[str]) -> bytes:
    """Return the parcel of the query that reads the named source. `paths`: where the driver imports from.

    Raises GraphNotFound, GraphFailed, BuildError."""
    wanted = graph_options(options)
    sys.path.extend(path for path in paths if path not in sys.path)
    found = load_named(wanted.source, Source, FORM)
    if not isinstance(found, Source):
        raise GraphNotFound(
            f"{wanted.source} is a {type(found).__name__}, not a source; name the source (Consumer.records(…).map(…)) "
            "without its sink: Spark's query is the sink"
        )
    return frame_parcel(
        found, row_schema(schema), f"{FORMAT}, {wanted.source}", wanted.max_rows, wanted.fail_on_data_loss
    )
