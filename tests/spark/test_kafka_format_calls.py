"""The data source `streamactors-kafka` as Spark calls it: each call looks at the versions first, and is passed on with the options.

No Spark and no broker run here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from streamactors.spark.kafka_format import columns, entry, reading, writing
from streamactors.spark.kafka_format.entry import format_of

MADE_WITH = {"python": "3.x", "streamactors": "y"}
OPTIONS = {"subscribe": "a"}
SCHEMA = SimpleNamespace(fieldNames=lambda: ["key", "value"])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every call that reaches this package, and every look at the versions, in order."""
    made: list[Any] = []
    monkeypatch.setattr(entry, "check", lambda made_with: made.append(("check", made_with)))

    def noted(module: Any, name: str, answer: Any) -> None:
        def call(*arguments: Any, **named: Any) -> Any:
            made.append((name, *arguments, *named.values()))
            return answer

        monkeypatch.setattr(module, name, call)

    noted(columns, "schema_of", "a schema")
    noted(reading, "batch_ranges", [("a", 0, 1, 2), ("a", 1, 3, 4)])
    noted(reading, "rows_of", iter([1, 2]))
    noted(writing, "name_of_write", "the write")
    noted(writing, "write_settings", None)
    noted(writing, "write_batch_task", "a batch message")
    noted(writing, "write_stream_task", "a stream message")
    noted(writing, "forget", None)
    return made


CHECK = ("check", MADE_WITH)


def source() -> Any:
    made = format_of(MADE_WITH)
    assert (made.name(), made.__name__) == ("streamactors-kafka", "StreamactorsKafka")
    return made(dict(OPTIONS))


def test_the_schema_comes_from_the_options(calls: list[Any]) -> None:
    assert source().schema() == "a schema"
    assert calls == [CHECK, ("schema_of", OPTIONS)]


def test_a_table_is_read_by_ranges(calls: list[Any]) -> None:
    reader = source().reader(SCHEMA)
    assert calls == []
    assert [each.value for each in reader.partitions()] == [("a", 0, 1, 2), ("a", 1, 3, 4)]
    assert calls == [CHECK, ("batch_ranges", OPTIONS)]
    calls.clear()
    assert list(reader.read(InputPartition(("a", 0, 1, 2)))) == [1, 2]
    assert calls == [CHECK, ("rows_of", OPTIONS, ("a", 0, 1, 2))]


def test_the_task_of_a_table_without_ranges_has_no_rows(calls: list[Any]) -> None:
    """Spark makes one task for a read without partitions. Its value is None, and the task failed with a TypeError."""
    assert list(source().reader(SCHEMA).read(InputPartition(None))) == []
    assert calls == [CHECK]


def test_a_stream_is_planned_by_its_planner(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    at = SimpleNamespace
    planner = at(
        initial=lambda: {"a": 1},
        latest=lambda start: {"a": start["a"] + 5},
        ends=lambda: {"a": 99},
        prepare_available_now=lambda: calls.append("available now"),
        ranges=lambda start, end: [at(key=("a", 0), start=at(position=start["a"]), end=at(position=end["a"]))],
    )
    monkeypatch.setattr(reading, "planner_of", lambda options: calls.append(("planner_of", options)) or planner)
    reader = source().streamReader(SCHEMA)
    assert reader.initialOffset() == {"a": 1}
    assert calls == [CHECK, ("planner_of", OPTIONS)]
    assert reader.latestOffset({"a": 1}, None) == {"a": 6}
    assert reader.reportLatestOffset() == {"a": 99}
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)
    reader.prepareForTriggerAvailableNow()
    assert calls[-1] == "available now"
    assert [each.value for each in reader.partitions({"a": 1}, {"a": 6})] == [("a", 0, 1, 6)]
    calls.clear()
    assert list(reader.read(InputPartition(("a", 0, 1, 6)))) == [1, 2]
    assert calls == [CHECK, ("rows_of", OPTIONS, ("a", 0, 1, 6))]
    reader.stop()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_table_is_written_by_tasks_that_know_the_write(calls: list[Any], overwrite: bool) -> None:
    writer = source().writer(SCHEMA, overwrite)
    assert calls == [CHECK, ("write_settings", OPTIONS, ["key", "value"], overwrite), ("name_of_write",)]
    calls.clear()
    rows = iter([])
    assert writer.write(rows) == "a batch message"
    assert calls == [CHECK, ("write_batch_task", OPTIONS, "the write", rows)]
    calls.clear()
    writer.commit(["m"])
    assert calls == [("forget", OPTIONS, ["m"])]


def test_a_stream_is_written_by_tasks_that_commit_for_themselves(calls: list[Any]) -> None:
    writer = source().streamWriter(SCHEMA, True)
    assert calls == [CHECK, ("write_settings", OPTIONS, ["key", "value"], False)]
    calls.clear()
    rows = iter([])
    assert writer.write(rows) == "a stream message"
    assert calls == [CHECK, ("write_stream_task", OPTIONS, rows)]
    writer.commit([], 1)
    writer.abort([], 1)
    assert len(calls) == 2
