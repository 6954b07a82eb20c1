"""Spark at the end of a stream: every replayable stream can end in foreachBatch, with back-pressure up to the Kafka partitions.

Names are loaded when first used, so that the reader, which Spark's processes import, brings nothing else along."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.spark.errors import CheckpointError as CheckpointError
    from streamactors.spark.errors import RowError as RowError
    from streamactors.spark.errors import SparkError as SparkError
    from streamactors.spark.errors import SparkQueryFailed as SparkQueryFailed
    from streamactors.spark.errors import SparkSetupError as SparkSetupError
    from streamactors.spark.query import SparkStreamQuery as SparkStreamQuery
    from streamactors.spark.session import spark_session as spark_session
    from streamactors.spark.sink import SparkSink as SparkSink

_HOMES = {
    "CheckpointError": "errors",
    "RowError": "errors",
    "SparkError": "errors",
    "SparkQueryFailed": "errors",
    "SparkSetupError": "errors",
    "SparkSink": "sink",
    "SparkStreamQuery": "query",
    "spark_session": "session",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home == "sink":
        from streamactors.spark.session import check_pyspark

        check_pyspark()  # a sentence, instead of whatever PySpark's absence looks like further down
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
