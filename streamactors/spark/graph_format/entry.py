"""The data source `streamactors` as Spark's processes get it, by value: it passes Spark's calls on to this package there.

It needs the standard library and PySpark's base classes until a call comes, so that a host without streamactors reports this in a sentence."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from streamactors.spark.executors.entry import GraphReader
from streamactors.spark.shipping.entry import check


class GraphFormat(DataSource):
    """The base of the registered class, which has the driver's versions and import path."""

    made_with: dict[str, str] = {}  # noqa: RUF012  # set by the subclass
    paths: tuple[str, ...] = ()

    @classmethod
    def name(cls) -> str:
        return "streamactors"

    def schema(self) -> NoReturn:
        raise ValueError('streamactors: the rows have no schema of their own; give it: .schema("key string, n long")')

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        check(self.made_with)
        from streamactors.spark.graph_format.reading import parcel_of

        return GraphReader(parcel_of(self.options, schema, self.paths), self.made_with)

    def reader(self, schema: Any) -> DataSourceReader:
        raise ValueError("streamactors: a source is a stream; use spark.readStream")


def format_of(made_with: dict[str, str], paths: tuple[str, ...]) -> type[GraphFormat]:
    """Return the data source to register."""
    return type("Streamactors", (GraphFormat,), {"made_with": made_with, "paths": paths})
