"""Formats: data sources in Python that are registered in a session.

Spark refuses a name that the *active* session of the thread knows and this one does not, as if it were taken. So a second session of one
Spark (`spark.newSession()`, as notebooks have) could not register what the first one has. The session is made the active one meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamactors.spark.session.session import is_connect


def register_format(spark: Any, source: Any) -> None:
    """Register a subclass of DataSource in a session; it replaces one of the same name."""
    with _active(spark):
        spark.dataSource.register(source)


def register_bridge(spark: Any) -> None:
    """Register the bridge's format in a session. By value, so that executors need pyarrow and PySpark, and nothing of this package."""
    import pyspark.cloudpickle

    from streamactors.spark.bridge import reader

    pickle: Any = pyspark.cloudpickle  # untyped
    pickle.register_pickle_by_value(reader)
    try:
        register_format(spark, reader.StreamActorsSource)
    finally:
        pickle.unregister_pickle_by_value(reader)


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Make a session the active one of this thread in the JVM, and restore the one before."""
    if is_connect(spark):  # its server has one session for each
        yield
        return
    sessions = spark._jvm.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
