"""Registers the data source with a session: by value, so that executors need pyarrow and PySpark, and nothing of this package."""

from __future__ import annotations

from typing import Any

import pyspark.cloudpickle

from streamactors.spark import reader

pickle: Any = pyspark.cloudpickle  # untyped


def register(spark: Any) -> None:
    """Make the format known to a session; registering it again does nothing new."""
    pickle.register_pickle_by_value(reader)
    try:
        spark.dataSource.register(reader.StreamActorsSource)
    finally:
        pickle.unregister_pickle_by_value(reader)
