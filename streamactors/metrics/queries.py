"""Metrics of the Spark queries that take the elements of a graph. Owner: a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.registry import Collector

from streamactors.dashboard.reading.spark import QueriesReader
from streamactors.engine.island.run import runs_of
from streamactors.metric_family import Family, counter, gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from streamactors.actors.system import ActorSystem

_QUERY: Final = ("graph", "query")
_READ: Final[tuple[tuple[Family, Callable[[Any], float | None]], ...]] = (
    (counter("streamactors_spark_batches_total", _QUERY, "Batches that are in Spark's checkpoint", "it stays while rows wait"), lambda each: each.batch),
    (gauge("streamactors_spark_writing_rows", _QUERY, "Rows of the batch that Spark is writing"), lambda each: each.writing_rows),
    (
        gauge("streamactors_spark_writing_seconds", _QUERY, "For how long Spark has been writing its batch; no sample while it writes none"),
        lambda each: None if each.writing_ms is None else each.writing_ms / 1_000,
    ),
    (gauge("streamactors_spark_gathered_rows", _QUERY, "Rows that wait for the next batch"), lambda each: each.gathered_rows),
    (gauge("streamactors_spark_last_batch_rows", _QUERY, "Rows of the last batch"), lambda each: each.rows),
    (
        gauge("streamactors_spark_last_batch_seconds", _QUERY, "Duration of the last batch", "it is above the trigger's interval"),
        lambda each: None if each.duration_ms is None else each.duration_ms / 1_000,
    ),
)  # fmt: skip
FAMILIES: Final = tuple(family for family, _ in _READ)


class QueriesCollector(Collector):
    """Reads the Spark queries of a system."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._reader = QueriesReader()

    def collect(self) -> Iterator[Metric]:
        """The families of all queries."""
        queries = self._reader.read(time.monotonic(), list(runs_of(self._system)))["spark"]
        for family, value in _READ:
            yield family.metric(
                ((each.graph, each.query), float(found)) for each in queries if (found := value(each)) is not None
            )

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks no query."""
        return []
