"""What the options of `streamactors` mean.

    source    MODULE:SOURCE, a source or a function of no arguments that returns one
    maxRows   the most records of a batch                    failOnDataLoss   true | false

Spark gives the names in lower case. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streamactors.errors import BuildError
from streamactors.spark.format_options import check_names, flag, number
from streamactors.spark.sink.spark_sink import MAX_ROWS

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
