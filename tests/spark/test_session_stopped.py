"""A query whose session is stopped: without rows Spark's query thread does not notice, and the run never ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.spark.errors import SparkQueryFailed
from streamactors.spark.query.runner import QueryRunner


class WaitingQuery:
    """A query that waits for rows. When it is asked a second time whether it has ended, its session has been stopped."""

    def __init__(self, context: SimpleNamespace) -> None:
        self._context = context
        self.stopped = False
        self._asked = 0

    def awaitTermination(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "the wait for a query that never ends has no end"
        self._asked += 1
        if self._asked > 1:
            self._context._jsc = None
        return False

    def stop(self) -> None:
        self.stopped = True


def test_a_query_whose_session_is_stopped_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(_jsc=object())
    query = WaitingQuery(context)
    monkeypatch.setattr(QueryRunner, "_start", lambda *_: query)
    ended: list[Any] = []
    runner = QueryRunner(
        SimpleNamespace(sparkContext=context),
        lambda *_: None,
        None,
        "ck",
        {},
        None,
        prepare=dict,
        on_started=lambda _: None,
        on_ended=ended.append,
    )
    runner._run()
    (error,) = ended
    assert isinstance(error, SparkQueryFailed)
    assert "session was stopped while the query ran" in str(error)
    assert query.stopped
