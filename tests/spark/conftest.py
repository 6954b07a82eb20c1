"""One Spark session for all tests here, as small and quick as it gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture
def spark() -> Any:
    """The session of this process; a new one after a page of the documentation has stopped it."""
    from streamactors.spark import spark_session

    return spark_session("tests", **SETTINGS)


@pytest.fixture(autouse=True)
def what_a_worker_keeps_ends_with_the_test() -> Iterator[None]:
    """A worker of Spark keeps readers and planners for as long as it lives. A test that plays the worker ends them."""
    yield
    query = sys.modules.get("streamactors.spark.executors.query")
    if query is not None:
        for reader in query._readers.values():
            reader.close()
        query._readers.clear()
    reading = sys.modules.get("streamactors.spark.kafka_format.reading")
    if reading is not None:
        reading._planner.cache_clear()
        reading._reader.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def stopped_at_the_end() -> Iterator[None]:
    yield
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
