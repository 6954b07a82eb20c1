"""One broker per test module, a system per test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamactors import ActorSystem
from streamactors.broker import Cluster
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.spark.executors import query
from streamactors.spark.executors.topic_end import Writers
from tests.spark.conftest import SETTINGS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def open_writers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RangeWriter]]:
    """The writers that are open, in a worker that has none. Those that the worker keeps are closed after the test."""
    found: list[RangeWriter] = []
    made, closed = RangeWriter.__init__, RangeWriter.close

    def make(self: RangeWriter, *arguments: Any) -> None:
        made(self, *arguments)
        found.append(self)

    def close(self: RangeWriter) -> None:
        closed(self)
        found.remove(self)

    monkeypatch.setattr(RangeWriter, "__init__", make)
    monkeypatch.setattr(RangeWriter, "close", close)
    monkeypatch.setattr(query, "_writers", Writers())
    yield found
    for writer in found.copy():
        writer.close()


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem("executors") as system:
        yield system


@pytest.fixture
def spark() -> Any:
    from streamactors.spark import spark_session

    return spark_session("tests", **SETTINGS)
