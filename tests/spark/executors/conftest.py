"""One broker per test module, a system per test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamactors import ActorSystem
from streamactors.broker import Cluster
from tests.spark.conftest import SETTINGS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem("executors") as system:
        yield system


@pytest.fixture
def spark() -> Any:
    from streamactors.spark import spark_session

    return spark_session("tests", **SETTINGS)
