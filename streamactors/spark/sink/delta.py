"""Batches as a Delta table, exactly once: each batch is one commit, which names the query and the epoch.

Delta Lake keeps the last version of each application in the table's log and skips a write whose version it has. The application is the
query's id (`txnAppId`) and the version is the epoch (`txnVersion`), so a batch that is written again after a crash adds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.spark.errors import SparkSetupError
from streamactors.spark.sink.parquet import Transform, transformed

TESTED: Final = "4.4.0"
TESTED_WITH: Final = "4.2"
"""The newest release of Delta Lake that is on Maven Central for Spark, and that Spark."""

ARTIFACT: Final = f"io.delta:delta-spark_{TESTED_WITH}_2.13:{TESTED}"
EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


class DeltaWriter:
    """Appends batches to the table at `path`. Stateless: the table's log says which batches are there."""

    def __init__(self, path: str, transform: Transform | None, partition_by: Sequence[str]) -> None:
        self._path = path
        self._transform = transform
        self._partition_by = tuple(partition_by)

    def __call__(self, frame: Any, epoch: int, query_id: str) -> None:
        """Write one batch."""
        out = transformed("SparkSink.delta", self._transform, frame, epoch)
        writer = out.write.format("delta").mode("append").option("txnAppId", query_id).option("txnVersion", epoch)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(self._path)


def check_delta(name: str, spark: Any) -> None:
    """Raise SparkSetupError, with versions and settings, unless Delta Lake is in the session."""
    from py4j.java_gateway import JavaClass

    settings = f'"spark.sql.extensions": "{EXTENSION}", "spark.sql.catalog.spark_catalog": "{CATALOG}"'
    if not isinstance(getattr(spark._jvm, EXTENSION, None), JavaClass):
        way = (
            f'start the session with spark_session(**{{"spark.jars.packages": "{ARTIFACT}", {settings}}})'
            if str(spark.version).startswith(f"{TESTED_WITH}.")
            else f"install PySpark {TESTED_WITH}, and start the session with its jar, {ARTIFACT}"
        )
        raise SparkSetupError(
            f"{name}: Delta Lake is not in this Spark session. Delta Lake {TESTED}, the newest release that this package was tested with, "
            f"is made for Spark {TESTED_WITH}, and Spark {spark.version} runs here; {way}"
        )
    if EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
        raise SparkSetupError(
            f"{name}: Delta Lake's jar is in this Spark session, but its extension is not; start the session with "
            f"spark_session(**{{{settings}}})"
        )
