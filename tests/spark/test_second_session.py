"""A second session of one Spark, as notebooks have, uses the sinks and the formats beside the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep, Source
from streamactors.broker import Cluster
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings
from streamactors.spark import SparkSink, register_graph_format, register_kafka_format

pytestmark = pytest.mark.timeout(600)
END_S = 300.0


def active(spark: Any) -> Any:
    found = spark._jvm.SparkSession.getActiveSession()
    return found.get() if found.isDefined() else None


@pytest.mark.slow
def test_sinks_run_in_each_of_two_sessions(spark: Any, tmp_path: Path) -> None:
    second = spark.newSession()
    before = active(spark)
    for i, session in enumerate((spark, second, spark, second)):
        rows: list[Any] = []
        sink = SparkSink.foreach_batch(
            session, lambda df, _, into=rows: into.extend(df.collect()), "n long", tmp_path / f"{i}"
        )
        assert Source.from_iterable([(i,)]).to_mat(sink, Keep.right).run().await_termination(END_S)
        assert [row.n for row in rows] == [i]
    assert active(spark) == before, "the thread's own session is the active one again"


@pytest.mark.slow
def test_formats_are_known_to_each_of_two_sessions(spark: Any) -> None:
    second = spark.newSession()
    with Cluster() as cluster:
        cluster.create_topic("t", 1)
        record = ProducerRecord("t", "1")
        producer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
        Source.from_iterable([record]).run_with(producer).result(60)
        for session in (spark, second, spark, second):
            register_kafka_format(session)
            register_graph_format(session)
            options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
            assert session.read.format("streamactors-kafka").options(**options).load().count() == 1
            with pytest.raises(Exception, match="option source is missing"):
                session.readStream.format("streamactors").schema("n long").load().writeStream.format(
                    "noop"
                ).start().processAllAvailable()
