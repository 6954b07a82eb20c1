"""The name of a query: Spark refuses two active queries of one name in a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.spark import SparkSetupError
from streamactors.spark.query.query_name import QueryName
from streamactors.spark.query.runner import QueryRunner


class Frame:
    """A streaming DataFrame whose writer notes the name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    @property
    def writeStream(self) -> Any:
        return self

    def foreachBatch(self, call: Any) -> Any:
        return self

    def option(self, name: str, value: str) -> Any:
        return self

    def queryName(self, name: str) -> Any:
        self.names.append(name)
        return self

    def start(self) -> None:
        """Spark has the query."""


def started(name: QueryName | None, *active: str | None) -> list[str]:
    """Return the name that Spark is given beside active queries of these names."""
    queries = [SimpleNamespace(name=each) for each in active]
    spark = SimpleNamespace(streams=SimpleNamespace(active=queries))
    frame = Frame()
    nothing: Any = None
    runner = QueryRunner(spark, nothing, None, "ck", {}, name, prepare=nothing, on_started=nothing, on_ended=nothing)
    runner.frame = lambda options: frame  # type: ignore[method-assign,assignment]
    runner._start({})
    return frame.names


def test_a_name_that_is_taken_is_refused_if_the_user_gave_it_and_numbered_otherwise() -> None:
    given, own = QueryName("hours"), QueryName("Transactional.sink g", is_given=False)
    assert started(None, None) == []
    assert started(given, None, "days") == ["hours"]
    with pytest.raises(
        SparkSetupError, match="query_name 'hours': an active query of this Spark session has that name"
    ):
        started(given, "days", "hours")
    assert started(own, "hours") == ["Transactional.sink g"]
    assert started(own, "Transactional.sink g", "Transactional.sink g (2)") == ["Transactional.sink g (3)"]
