"""Records as rows, with the columns of Spark's own Kafka source, and rows as records. A chunk at a time, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from streamactors.errors import BuildError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.spark.format_options import flag
from streamactors.spark.kafka_format.bounds import FORMAT

_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
WRITTEN: Final = ("value", "key", "topic", "partition", "headers")
"""The columns that a writer takes."""


def schema_of(options: Mapping[str, str]) -> str:
    """Return the columns of a reader."""
    headers = flag(FORMAT, options, "includeHeaders", default=False)
    return f"{_COLUMNS}, headers array<struct<key: string, value: binary>>" if headers else _COLUMNS


def check_columns(names: Sequence[str], topic: str | None) -> None:
    """Raise BuildError for columns that a writer does not take, or lacks."""
    unknown = [name for name in names if name not in WRITTEN]
    if unknown:
        raise BuildError(
            f"{FORMAT} writes the columns {', '.join(WRITTEN)}, and the rows have {', '.join(unknown)}; select what to write"
        )
    if "value" not in names:
        raise BuildError(f"{FORMAT} writes a column value, and the rows have {', '.join(names) or 'none'}")
    if topic is None and "topic" not in names:
        raise BuildError(f'{FORMAT}: say where to write: .option("topic", …) or a column topic')


def records_of(batch: pa.RecordBatch, topic: str | None) -> list[ProducerRecord]:
    """Return the records of rows. `topic` wins over the column. Raises BuildError for a row without a topic."""
    names = batch.schema.names

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * batch.num_rows

    topics = [topic] * batch.num_rows if topic is not None else column("topic")
    if None in topics:
        raise BuildError(f"{FORMAT}: the topic of row {topics.index(None)} of a batch is null")
    headers = [None if each is None else tuple((h["key"], h["value"]) for h in each) for each in column("headers")]
    values, keys, partitions = column("value"), column("key"), column("partition")
    return [
        ProducerRecord(name, value, key, partition, None, own)
        for name, value, key, partition, own in zip(topics, values, keys, partitions, headers, strict=True)
    ]
