"""Chunks of librdkafka's messages as Arrow record batches, column by column, without an object of this package per record.

Owner: the caller. Every column iterates in C."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from streamactors.kafka.client.connection import ck

_KIND: Final = itemgetter(0)
_MS: Final = itemgetter(1)
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_UTC: Final = pa.timestamp("us", tz="UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _UTC),
        ("timestampType", pa.int32()),
    ]
)
"""The columns have the names and types of Spark's own Kafka source. timestampType: -1 no timestamp, 0 CreateTime, 1 LogAppendTime."""
_SHARED_ROWS: Final = 4_096
"""A column of equal values is a slice of a column that is made once; most record batches have no more rows than this."""
WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", pa.list_(_HEADER)))


def _same(value: object, kind: pa.DataType, n: int) -> pa.Array:
    """Return a column of one value."""
    return _many(value, kind).slice(0, n) if n <= _SHARED_ROWS else pa.repeat(pa.scalar(value, kind), n)


@lru_cache(maxsize=128)
def _many(value: object, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), _SHARED_ROWS)


def _offsets(messages: Sequence[Any]) -> pa.Array:
    """Return the offsets of messages of one partition, which ascend."""
    n = len(messages)
    first = messages[0].offset()
    if (
        n <= _SHARED_ROWS and messages[-1].offset() - first == n - 1
    ):  # no transaction's end and nothing compacted between
        return pyarrow.compute.add(_ascending().slice(0, n), first)
    return pa.array(list(map(ck.Message.offset, messages)), pa.int64())


@lru_cache(maxsize=1)
def _ascending() -> pa.Array:
    return pa.array(range(_SHARED_ROWS), pa.int64())


def record_batch(messages: Sequence[Any], *, headers: bool) -> pa.RecordBatch:
    """Return the messages of one partition as a record batch of SCHEMA, or of WITH_HEADERS."""
    message = ck.Message
    first = messages[0]
    n = len(messages)
    timestamps = list(map(message.timestamp, messages))
    kinds = list(map(_KIND, timestamps))
    kind = kinds[0] if kinds.count(kinds[0]) == n else None
    if kind or 0 not in kinds:
        stamps = pa.array(list(map(_MS, timestamps)), pa.int64()).view(_MILLISECONDS)
    else:  # a message without a timestamp
        stamps = pa.array([ms if has else None for has, ms in timestamps], _MILLISECONDS)
    columns = [
        pa.array(list(map(message.key, messages)), pa.binary()),
        pa.array(list(map(message.value, messages)), pa.binary()),
        _same(first.topic(), pa.string(), n),
        _same(first.partition(), pa.int32(), n),
        _offsets(messages),
        stamps.cast(_UTC),
        pa.array([each - 1 for each in kinds], pa.int32()) if kind is None else _same(kind - 1, pa.int32(), n),
    ]
    if headers:
        found = [[{"key": k, "value": v} for k, v in given or ()] or None for given in map(message.headers, messages)]
        columns.append(pa.array(found, pa.list_(_HEADER)))
    return pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS if headers else SCHEMA)
