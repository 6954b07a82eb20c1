"""Every way into Spark looks at its session first: what is none is refused by name, and so is one over Spark Connect where it cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamactors import Source
from streamactors.spark import SparkExecutors, SparkSetupError, SparkSink
from streamactors.spark.executors.frame import frame_of
from streamactors.spark.graph_format.register import register_graph_format
from streamactors.spark.kafka_format.register import register_kafka_format
from streamactors.spark.session import session

ENTRIES: dict[str, Callable[[Any], Any]] = {
    "register_kafka_format": register_kafka_format,
    "register_graph_format": register_graph_format,
    "SparkSource.frame": lambda spark: frame_of(spark, Source.single({"n": 1}), "n long", 10, True),
    "SparkExecutors": SparkExecutors,
    "SparkSink.foreach_batch": lambda spark: SparkSink.foreach_batch(
        spark, lambda frame, epoch: None, schema="n long", checkpoint="file:///nowhere"
    ),
    "SparkSink.delta": lambda spark: SparkSink.delta(
        spark, "file:///nowhere", schema="n long", checkpoint="file:///no"
    ),
}
OVER_CONNECT = {"register_kafka_format", "SparkSource.frame"}


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_session_is_refused(entry: str) -> None:
    with pytest.raises(SparkSetupError, match="a SparkSession expected, got str; spark_session\\(\\) makes one"):
        ENTRIES[entry]("spark")


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_session_that_was_stopped_is_refused(entry: str) -> None:
    stopped = object.__new__(SparkSession)
    stopped._sc = type("Context", (), {"_jsc": None})()  # type: ignore[assignment]
    with pytest.raises(SparkSetupError, match="the Spark session has been stopped"):
        ENTRIES[entry](stopped)


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - OVER_CONNECT))
def test_a_session_over_spark_connect_is_refused_where_it_cannot_work(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "is_connect", lambda spark: True)
    with pytest.raises(SparkSetupError, match="use a classic session"):
        ENTRIES[entry](object())
