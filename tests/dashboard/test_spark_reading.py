"""Spark on the page, against what Spark itself reports: queries of a sink, of a graph on executors, and the executors."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Keep, Source
from streamactors.broker import Cluster
from streamactors.dashboard.serving import Dashboard
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import SparkExecutors, SparkSink, spark_session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # beside other work Spark's processes start slowly, and the sink says so
    pytest.mark.expects_log("Spark has not started after 3 s"),
    pytest.mark.expects_log("did not start within its limit", again=True),
]

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}


def wait_for(
    page: Dashboard, holds: Callable[[list[dict[str, Any]]], object], seconds: float = 400.0
) -> list[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    while True:
        found: list[dict[str, Any]] = page.state()["spark"]
        if holds(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def of_spark(spark: Any) -> list[dict[str, Any]]:
    """Return the executors as Spark's own web interface does; none if it has no port."""
    url = spark.sparkContext.uiWebUrl
    if url is None:
        return []
    address = f"{url}/api/v1/applications/{spark.sparkContext.applicationId}/executors"
    with urllib.request.urlopen(address, timeout=20) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def test_a_query_and_the_executors_are_as_spark_reports_them(tmp_path: Path) -> None:
    spark = spark_session("page", **SETTINGS)
    with ActorSystem("spark") as system:
        rows: list[int] = []

        def write(frame: Any, epoch_id: int) -> None:
            rows.append(frame.count())

        sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "checkpoint", max_rows=100)
        source = Source.range(10**9).throttle(200, "1s").map(lambda n: (n,))
        query = source.to_mat(sink, Keep.right).named("numbers").run(system)
        with system.serve_dashboard() as page:
            (found,) = wait_for(page, lambda found: found and found[0]["executors"] and (found[0]["batch"] or 0) > 2)
            told = of_spark(spark)
            query.stop(60)
            assert wait_for(page, lambda found: not found) == []
    (executor,) = found["executors"]
    assert (found["graph"], executor["id"], executor["state"]) == ("numbers", "driver", "active")
    assert executor["cores"] == spark.sparkContext.defaultParallelism
    assert found["demand"] <= 100
    assert found["batch"] <= len(rows) + 1
    if told:
        (same,) = told
        assert executor["address"] == same["hostPort"]
        assert executor["memory_total_bytes"] == same["maxMemory"]
        assert executor["done"] <= same["completedTasks"]


def test_a_graph_on_executors_has_no_run_here_and_is_shown_as_a_query(tmp_path: Path) -> None:
    spark = spark_session("page", **SETTINGS)
    with Cluster() as cluster, ActorSystem("spark") as system, system.serve_dashboard() as page:
        cluster.create_topic("flights", 2)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(50):
            producer.produce("flights", str(n), partition=n % 2)
        assert not producer.flush(20)
        settings = ConsumerSettings(cluster.bootstrap_servers, "g", "earliest")
        sink = SparkSink.parquet(spark, tmp_path / "table", "n long", tmp_path / "checkpoint")
        graph = Consumer.source(settings, Subscriptions.topics("flights")).map(lambda record: (int(record.value),))
        _, query = graph.to_mat(sink, Keep.both).run(SparkExecutors(spark))
        (found,) = wait_for(page, lambda found: found and found[0]["executors"] and (found[0]["batch"] or 0) >= 1)
        query.stop(60)
        assert page.state()["graphs"] == []
    assert found["phase"] == "running"
    assert [each["id"] for each in found["executors"]] == ["driver"]
