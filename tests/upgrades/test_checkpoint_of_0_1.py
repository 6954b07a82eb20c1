"""A query of 0.1.0 continues from its checkpoint in this version: each record is in the table once. `record_spark_0_1.py` has made the folders."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from streamactors import Keep, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.client.connection import ClientConnection
from tests.spark.conftest import SETTINGS

RECORDED = Path(__file__).with_name("0.1.0-spark.tar.gz")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_query_continues_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    import pandas

    from streamactors.spark import SparkSink, spark_session

    monkeypatch.setattr(ClientConnection, "silence_ms", 60_000)  # on a busy machine
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    spark = spark_session("upgrades", **SETTINGS)
    with Cluster(data=tmp_path / "broker") as cluster:
        servers = cluster.bootstrap_servers
        later = [ProducerRecord("flights", b"%d" % number, b"LGA") for number in (3, 4)]
        Source.from_iterable(later).run_with(Producer.plain_sink(ProducerSettings(servers))).result(60)
        settings = ConsumerSettings(servers, "to-spark", "earliest")
        sink = SparkSink.parquet(spark, tmp_path / "table", "origin string, flight long", tmp_path / "checkpoint")
        control, query = (
            Consumer.source(settings, Subscriptions.topics("flights"), until="end")
            .map(lambda record: (record.key.decode(), int(record.value)))
            .to_mat(sink, Keep.both)
            .run()
        )
        query.await_termination(300)
        control.is_shutdown.result(60)
    table = pandas.read_parquet(tmp_path / "table")
    assert sorted(zip(table.flight, table.origin, table.epoch_id.astype(int), strict=True)) == [
        (0, "JFK", 0),
        (1, "JFK", 0),
        (2, "JFK", 0),
        (3, "LGA", 1),
        (4, "LGA", 1),
    ]
    assert table.query_id.nunique() == 1
    spark.stop()
