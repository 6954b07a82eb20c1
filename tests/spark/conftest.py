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


@pytest.fixture(scope="session", autouse=True)
def stopped_at_the_end() -> Iterator[None]:
    yield
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
