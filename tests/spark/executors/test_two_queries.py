"""The two queries of a graph with key_by under one handle, without Spark: which end of one query ends the other one."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.spark.executors.runner import GraphRun
from streamactors.spark.executors.two_queries import TwoQueries


class Run:
    """A query that writes down what it is told, and ends when the test says so."""

    def __init__(self) -> None:
        self.query: Any = SimpleNamespace(completion=Future())
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")

    def drain(self) -> None:
        self.told.append("drain")

    def counts(self) -> dict[str, Any]:
        return {"checkpoint": {}}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> tuple[TwoQueries, Any, Any]:
    monkeypatch.setattr(GraphRun, "stop", Run.stop)
    monkeypatch.setattr(GraphRun, "drain", Run.drain)
    upkeep = SimpleNamespace(start=lambda: None, stop=lambda: None)
    between: Any = SimpleNamespace(prepare_topic=lambda: upkeep)
    first: Any = Run()
    second: Any = Run()
    both = TwoQueries(between, first, second, in_turn=False)
    both.start()
    return both, first, second


def test_a_query_that_has_drained_leaves_the_other_one_to_its_batch(runs: tuple[TwoQueries, Any, Any]) -> None:
    # the first end stopped the other query in the middle of its batch, which foreach_batch got again at the next run
    both, first, second = runs
    both.control.stop()
    first.query.completion.set_result(None)
    assert second.told == ["start", "drain"]
    assert not both.control.is_shutdown.done()
    second.query.completion.set_result(None)
    both.control.is_shutdown.result(0)
    assert (first.told, second.told) == (["start", "drain"], ["start", "drain"])


def test_a_query_that_is_drained_can_still_be_stopped(runs: tuple[TwoQueries, Any, Any]) -> None:
    both, first, second = runs
    both.control.stop()
    first.query.completion.set_result(None)
    both.stop()
    assert second.told == ["start", "drain", "stop"]


def test_a_query_that_fails_while_it_is_drained_stops_the_other_one(runs: tuple[TwoQueries, Any, Any]) -> None:
    both, first, second = runs
    both.control.stop()
    first.query.completion.set_exception(ValueError("first"))
    assert second.told == ["start", "drain", "stop"]
    second.query.completion.set_result(None)
    with pytest.raises(ValueError, match="first"):
        both.control.is_shutdown.result(0)


def test_a_query_that_ends_by_itself_stops_the_other_one(runs: tuple[TwoQueries, Any, Any]) -> None:
    _, first, second = runs
    first.query.completion.set_result(None)
    assert second.told == ["start", "stop"]
