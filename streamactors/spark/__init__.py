"""Spark at the end of a stream: every replayable stream can end in foreachBatch, with back-pressure up to the Kafka partitions.

Names are loaded when first used: Spark's processes import only the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.spark.errors import CheckpointError as CheckpointError
    from streamactors.spark.errors import RowError as RowError
    from streamactors.spark.errors import SparkError as SparkError
    from streamactors.spark.errors import SparkQueryFailed as SparkQueryFailed
    from streamactors.spark.errors import SparkSetupError as SparkSetupError
    from streamactors.spark.executors.facade import SparkExecutors as SparkExecutors
    from streamactors.spark.frames.on_spark import on_spark as on_spark
    from streamactors.spark.frames.source import SparkSource as SparkSource
    from streamactors.spark.graph_format.register import register_graph_format as register_graph_format
    from streamactors.spark.kafka_format.register import register_kafka_format as register_kafka_format
    from streamactors.spark.query.query import SparkStreamQuery as SparkStreamQuery
    from streamactors.spark.session.session import spark_session as spark_session
    from streamactors.spark.sink.settings import SparkSinkSettings as SparkSinkSettings
    from streamactors.spark.sink.spark_sink import SparkSink as SparkSink

_load, __dir__ = lazy_names(__name__)


def __getattr__(name: str) -> Any:
    if name in ("SparkExecutors", "SparkSink", "SparkSinkSettings", "SparkSource", "on_spark"):
        from streamactors.spark.session.session import check_pyspark

        check_pyspark()  # a clear error when PySpark is missing
    return _load(name)
