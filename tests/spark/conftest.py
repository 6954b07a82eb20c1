"""One Spark session for all tests here, as small and quick as it gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from streamactors.spark import spark_session

    session = spark_session(
        "tests",
        **{
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
        },
    )
    yield session
    session.stop()
