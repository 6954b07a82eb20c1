"""The data source `streamactors-kafka` as Spark's processes get it, by value: it passes Spark's calls on to this package there.

It needs the standard library and PySpark's base classes until a call comes, so that a host without streamactors reports this in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from streamactors.spark.shipping.entry import check


class KafkaFormat(DataSource):
    """The base of the registered class, which has the driver's versions in `made_with`."""

    made_with: dict[str, str] = {}  # noqa: RUF012  # set by the subclass

    @classmethod
    def name(cls) -> str:
        return "streamactors-kafka"

    def schema(self) -> str:
        check(self.made_with)
        from streamactors.spark.kafka_format.columns import schema_of

        return schema_of(self.options)

    def reader(self, schema: Any) -> DataSourceReader:
        return BatchReader(dict(self.options), self.made_with)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(dict(self.options), self.made_with)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        check(self.made_with)
        from streamactors.spark.kafka_format.writing import name_of_write, write_settings

        write_settings(self.options, schema.fieldNames(), overwrite=overwrite)
        return BatchWriter(dict(self.options), self.made_with, name_of_write())

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        check(self.made_with)
        from streamactors.spark.kafka_format.writing import write_settings

        write_settings(self.options, schema.fieldNames(), overwrite=False)
        return StreamWriter(dict(self.options), self.made_with)


class BatchReader(DataSourceReader):
    """Spark's calls for `spark.read`."""

    def __init__(self, options: dict[str, str], made_with: dict[str, str]) -> None:
        self._options = options
        self._made_with = made_with

    def partitions(self) -> list[InputPartition]:
        check(self._made_with)
        from streamactors.spark.kafka_format.reading import batch_ranges

        return [InputPartition(each) for each in batch_ranges(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        check(self._made_with)
        if partition.value is None:
            return  # for a read without partitions Spark makes one task, with this value
        from streamactors.spark.kafka_format.reading import rows_of

        yield from rows_of(self._options, partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls for `spark.readStream`."""

    def __init__(self, options: dict[str, str], made_with: dict[str, str]) -> None:
        self._options = options
        self._made_with = made_with

    @property
    def _planner(self) -> Any:
        check(self._made_with)
        from streamactors.spark.kafka_format.reading import planner_of

        return planner_of(self._options)

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.initial()  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()  # the planner knows how many records a batch may have

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return self._planner.latest(start)  # type: ignore[no-any-return]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planner.ends()  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition((*r.key, r.start.position, r.end.position)) for r in self._planner.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        check(self._made_with)
        from streamactors.spark.kafka_format.reading import rows_of

        yield from rows_of(self._options, partition.value)

    def stop(self) -> None:
        """The query has ended, and with it the process that Spark runs this in."""


class BatchWriter(DataSourceArrowWriter):
    """Spark's calls for `df.write`. `name`: of this write, which is one for all its tasks and their repetitions."""

    def __init__(self, options: dict[str, str], made_with: dict[str, str], name: str) -> None:
        self._options = options
        self._made_with = made_with
        self._name = name

    def write(self, iterator: Iterator[Any]) -> Any:
        check(self._made_with)
        from streamactors.spark.kafka_format.writing import write_batch_task

        return write_batch_task(self._options, self._name, iterator)

    def commit(self, messages: list[Any]) -> None:
        from streamactors.spark.kafka_format.writing import forget

        forget(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark's calls for `df.writeStream`."""

    def __init__(self, options: dict[str, str], made_with: dict[str, str]) -> None:
        self._options = options
        self._made_with = made_with

    def write(self, iterator: Iterator[Any]) -> Any:
        check(self._made_with)
        from streamactors.spark.kafka_format.writing import write_stream_task

        return write_stream_task(self._options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Every task has committed its own transaction."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """The tasks that have committed are not written again when Spark repeats the batch."""


def format_of(made_with: dict[str, str]) -> type[KafkaFormat]:
    """Return the data source to register."""
    return type("StreamactorsKafka", (KafkaFormat,), {"made_with": made_with})
