"""The rows of a batch DataFrame as Arrow record batches, in the driver's process.

Spark's executors encode the record batches in their JVMs. The driver's JVM sends them to this process over a socket, as `toLocalIterator` does with
rows. So Spark starts no Python worker, and no row becomes a Python object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark

from streamactors.spark.errors import SparkQueryFailed, SparkSetupError
from streamactors.spark.session.session import JVM_GONE, is_lost


def record_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a batch DataFrame, partition by partition; the next partition is computed meanwhile.

    Timestamps have the session's time zone. Raises PySparkTypeError for a column that Arrow does not know, the error of a job that fails, SparkQueryFailed
    if the JVM goes away, and SparkSetupError for a version of PySpark without these functions."""
    try:
        from pyspark.serializers import NoOpSerializer
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.util import _local_iterator_from_socket

        blobs = frame._jdf.toArrowBatchRdd
        serve = frame.sparkSession.sparkContext._jvm.PythonRDD.toLocalIteratorAndServe
    except (ImportError, AttributeError) as missing:  # names of PySpark that are not public
        raise SparkSetupError(
            f"SparkSource.of cannot read record batches with PySpark {pyspark.__version__} ({missing}); use a version that streamactors was "
            "tested with, or Source.from_iterable(df.toArrow().to_batches()), which holds all rows in memory"
        ) from None
    session = frame.sparkSession
    schema = to_arrow_schema(
        frame.schema,
        timezone=session.conf.get("spark.sql.session.timeZone"),
        prefers_large_types=session.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true",
    )
    try:
        for blob in _local_iterator_from_socket(serve(blobs(), True), NoOpSerializer()):
            yield pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
    except Exception as error:
        if is_lost(error, session):
            raise SparkQueryFailed(JVM_GONE) from error
        raise
