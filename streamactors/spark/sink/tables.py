"""Table formats that SparkSink does not write: the refusals, with the versions and the way out."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final, NoReturn

from streamactors.spark.errors import SparkSetupError
from streamactors.spark.session.session import check_pyspark

ICEBERG: Final = (
    "Iceberg 1.12.0, the newest release known to this package, has runtimes for Spark 3.4, 3.5, 4.0 and 4.1"
)
ICEBERG_WAY: Final = "use SparkSink.parquet, or SparkSink.foreach_batch with a function (df, epoch_id, query_id) that writes both ids with its rows"


def refuse(name: str, runtime: str, way: str) -> NoReturn:
    """Raise SparkSetupError naming the sink, the versions and the way out."""
    check_pyspark()
    raise SparkSetupError(
        f"{name} does not exist yet, because it has not been tested: {runtime}, and PySpark {version('pyspark')} is installed; {way}"
    )
