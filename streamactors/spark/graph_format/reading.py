"""Finds the source that the options of the format `streamactors` name, and packs the query that reads it.

    source    MODULE:SOURCE, a source or a function of no arguments that returns one
    maxRows   the most records of a batch                    failOnDataLoss   true | false

Spark gives the names in lower case. Runs in Spark's source process, on the driver's host."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from streamactors.dsl.named import GraphNotFound, load_named
from streamactors.dsl.source import Source
from streamactors.errors import BuildError
from streamactors.spark.executors.frame import frame_parcel
from streamactors.spark.format_options import TO_SKIP, check_names, flag, number
from streamactors.spark.schema import source_schema
from streamactors.spark.sink.batch_size import MAX_ROWS

FORMAT: Final = "streamactors"
FORM: Final = "MODULE:SOURCE, as in my_streams:orders or my_streams.py:orders"
_KNOWN: Final = {name.lower(): name for name in ("source", "maxRows", "failOnDataLoss")}


class GraphOptions(NamedTuple):
    """What to read. `max_rows`, `fail_on_data_loss`: as in SparkSource.frame."""

    source: str
    max_rows: int
    fail_on_data_loss: bool


def graph_options(options: Mapping[str, str]) -> GraphOptions:
    """Return what the options mean. Raises BuildError naming the option."""
    check_names(FORMAT, options, _KNOWN)
    if not options.get("source"):
        raise BuildError(f'{FORMAT}: option source is missing: .option("source", "my_streams:orders")')
    return GraphOptions(
        options["source"],
        number(FORMAT, options, "maxRows") or MAX_ROWS,
        flag(FORMAT, options, "failOnDataLoss", default=True),
    )


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
        found, source_schema(schema), f"{FORMAT}, {wanted.source}", wanted.max_rows, wanted.fail_on_data_loss, TO_SKIP
    )
