"""The rows of a batch DataFrame as Arrow record batches, in the driver's process.

Spark's JVMs make the record batches where the partitions are. They come over a socket of the driver's JVM, in the way that `toLocalIterator`
uses for rows. So no Python worker takes part, and no row becomes an object on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def record_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a batch DataFrame, partition by partition; the next partition is computed meanwhile.

    Timestamps have the session's time zone. Raises PySparkTypeError for a column that Arrow does not know, and the error of a job that fails."""
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.util import _local_iterator_from_socket

    session = frame.sparkSession
    schema = to_arrow_schema(
        frame.schema,
        timezone=session.conf.get("spark.sql.session.timeZone"),
        prefers_large_types=session.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true",
    )
    blobs = frame._jdf.toArrowBatchRdd()
    served = session.sparkContext._jvm.PythonRDD.toLocalIteratorAndServe(blobs, True)
    for blob in _local_iterator_from_socket(served, NoOpSerializer()):
        yield pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
