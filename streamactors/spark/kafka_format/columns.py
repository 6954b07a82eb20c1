"""Records as rows, with the columns of Spark's own Kafka source, and rows as records. A chunk at a time, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from streamactors.errors import BuildError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.spark.format_options import flag
from streamactors.spark.kafka_format.options import FORMAT

_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_PLAIN: Final = (
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
)
WRITTEN: Final = ("value", "key", "topic", "partition", "headers")
"""The columns that a writer takes."""


def schema_of(options: Mapping[str, str]) -> str:
    """Return the columns of a reader."""
    headers = flag(FORMAT, options, "includeHeaders", default=False)
    return f"{_COLUMNS}, headers array<struct<key: string, value: binary>>" if headers else _COLUMNS


def batch_of(messages: Sequence[Any], *, headers: bool) -> pa.RecordBatch:
    """Return librdkafka's messages of one partition as a record batch."""
    first = messages[0]
    stamps = [message.timestamp() for message in messages]
    n = len(messages)
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(first.topic(), n),
        pa.repeat(pa.scalar(first.partition(), pa.int32()), n),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([ms * 1_000 if kind else None for kind, ms in stamps], _PLAIN[5][1]),
        # Spark's numbers: no timestamp -1, CreateTime 0, LogAppendTime 1
        pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
    ]
    names = [name for name, _ in _PLAIN]
    if headers:
        found = [[{"key": k, "value": v} for k, v in message.headers() or ()] or None for message in messages]
        columns.append(pa.array(found, pa.list_(_HEADER)))
        names.append("headers")
    return pa.RecordBatch.from_arrays(columns, names)


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
