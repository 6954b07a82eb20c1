"""The data source that Spark's processes get by value: it opens the query's parcel there and passes Spark's calls on.

It needs the standard library and PySpark's base classes until the parcel is opened, so that a host without streamactors reports this in a
sentence. The parcel is part of the class, not an option, because options are shown in Spark's plans and logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from streamactors.spark.shipping.entry import opened


class GraphSource(DataSource):
    """The base of the data sources of queries; each has a subclass with its own name and parcel."""

    format_name = ""
    parcel = b""
    made_with: dict[str, str] = {}  # noqa: RUF012  # set by each subclass

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return GraphReader(self.parcel, self.made_with)


class GraphReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls, in the driver's source process; `read` in the executors."""

    def __init__(self, parcel: bytes, made_with: dict[str, str]) -> None:
        self._parcel = parcel
        self._made_with = made_with

    @property
    def _query(self) -> Any:
        return opened(self._parcel, self._made_with)

    def initialOffset(self) -> dict[str, Any]:
        return self._query.planner.initial()  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()  # the planner knows how many records a batch may have

    def prepareForTriggerAvailableNow(self) -> None:
        self._query.planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return self._query.planner.latest(start)  # type: ignore[no-any-return]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._query.planner.ends()  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(each.packed()) for each in self._query.planner.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from self._query.read(partition.value)

    def stop(self) -> None:
        """The query has ended, and with it the process that Spark runs this in."""


def source_of(name: str, parcel: bytes, made_with: dict[str, str]) -> type[GraphSource]:
    """Return the data source of one query."""
    return type("QuerySource", (GraphSource,), {"format_name": name, "parcel": parcel, "made_with": made_with})
