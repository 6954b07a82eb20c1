"""Chunks of librdkafka's messages as Arrow record batches, column by column, without an object of this package per record.

Owner: the caller. Every column iterates in C."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

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
_SHARED_ROWS: Final = 2_048
"""A column whose values are all the same is a slice of one that is made once; most record batches have no more rows than this."""
WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", pa.list_(_HEADER)))


def _same(value: object, kind: pa.DataType, n: int) -> pa.Array:
    """Return a column of one value."""
    return _many(value, kind).slice(0, n) if n <= _SHARED_ROWS else pa.repeat(pa.scalar(value, kind), n)


@lru_cache(maxsize=256)
def _many(value: object, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), _SHARED_ROWS)


def record_batch(messages: Sequence[Any], *, headers: bool) -> pa.RecordBatch:
    """Return the messages of one partition as a record batch of SCHEMA, or of WITH_HEADERS."""
    message = ck.Message
    first = messages[0]
    n = len(messages)
    timestamps = list(map(message.timestamp, messages))
    kinds = list(map(_KIND, timestamps))
    stamps = list(map(_MS, timestamps))
    if 0 in kinds:  # a message without a timestamp
        stamps = [ms if kind else None for kind, ms in timestamps]
    columns = [
        pa.array(list(map(message.key, messages)), pa.binary()),
        pa.array(list(map(message.value, messages)), pa.binary()),
        _same(first.topic(), pa.string(), n),
        _same(first.partition(), pa.int32(), n),
        pa.array(list(map(message.offset, messages)), pa.int64()),
        pa.array(stamps, _MILLISECONDS).cast(_UTC),
        _same(kinds[0] - 1, pa.int32(), n)
        if kinds.count(kinds[0]) == n
        else pa.array([kind - 1 for kind in kinds], pa.int32()),
    ]
    if headers:
        found = [[{"key": k, "value": v} for k, v in given or ()] or None for given in map(message.headers, messages)]
        columns.append(pa.array(found, pa.list_(_HEADER)))
    return pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS if headers else SCHEMA)
