"""Makes the format `streamactors-kafka` known to a Spark session."""

from __future__ import annotations

from typing import Any

from streamactors.spark.kafka_format import entry
from streamactors.spark.session.formats import register_format
from streamactors.spark.session.session import check_session
from streamactors.spark.shipping import entry as shipping_entry
from streamactors.spark.shipping.parcel import by_value, made_with


def register_kafka_format(spark: Any) -> None:
    """Register the format `streamactors-kafka` in a session: topics as tables and streams of Spark, without a jar.

        register_kafka_format(spark)
        spark.read.format("streamactors-kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "t").load()

    The options and the columns are those of Spark's own Kafka source; kafka.NAME is a property of librdkafka. Readers see committed records.
    Writers (`df.write`, `df.writeStream`) write each task in one transaction, exactly once. The session may be one of
    Spark Connect, whose server needs streamactors. Raises SparkSetupError."""
    check_session(spark, over_connect=None)
    with by_value(entry, shipping_entry):
        register_format(spark, entry.format_of(made_with()))
