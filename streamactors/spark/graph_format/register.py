"""Makes the format `streamactors` known to a Spark session."""

from __future__ import annotations

import os
import sys
from typing import Any

from streamactors.spark.executors import entry as executors_entry
from streamactors.spark.graph_format import entry
from streamactors.spark.session.formats import register_format
from streamactors.spark.session.session import check_session
from streamactors.spark.shipping import entry as shipping_entry
from streamactors.spark.shipping.parcel import by_value, made_with


def register_graph_format(spark: Any) -> None:
    """Register the format `streamactors` in a session: what SparkSource.frame does, for a source that is named by its module.

        register_graph_format(spark)
        spark.readStream.format("streamactors").option("source", "my_streams:orders").schema("key string, n long").load()

    `source` names a source (Consumer.records(…).map(…)), or a function of no arguments that returns one. It is imported on the driver's host,
    with the import path that the driver has now. `maxRows` and `failOnDataLoss` are as in SparkSource.frame. Raises SparkSetupError."""
    check_session(
        spark,
        "over Spark Connect the server would import the module of the source, which it may not have (SparkSource.frame sends the source itself)",
    )
    paths = tuple(os.path.abspath(path) for path in sys.path)
    with by_value(entry, executors_entry, shipping_entry):
        register_format(spark, entry.format_of(made_with(), paths))
