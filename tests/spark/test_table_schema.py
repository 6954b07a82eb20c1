"""A table of files has one type for each column. A run that would write another one is refused before its first batch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep, Source
from streamactors.spark import CheckpointError, SparkSink
from streamactors.spark.query.table_schema import changes, in_a_sentence, together

pytestmark = [pytest.mark.timeout(900), pytest.mark.expects_log("have different columns", "cannot verify that this")]
END_S = 300.0
ROWS: list[tuple[Any, ...]] = [(1, 1.0)]


def run(spark: Any, folder: Path, schema: str, rows: list[Any], table: str = "t", **sink: Any) -> None:
    end = SparkSink.parquet(spark, folder / table, schema, folder / "ck", **sink)
    assert Source.from_iterable(rows).to_mat(end, Keep.right).run().await_termination(END_S)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    return [line for line in told if "mergeSchema" in line]


def test_a_changed_type_is_refused_and_an_added_column_is_a_warning(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All three runs ended well. Afterwards nobody could read the table, and nobody saw the column `user`."""
    run(spark, tmp_path, "id long, amount double", ROWS)
    rows = [*ROWS, (2, 2.0, "ann")]
    run(spark, tmp_path, "id long, amount double, user string", rows)
    (told,) = warnings(caplog)
    assert "the schema adds 'user'" in told
    assert 'spark.read.option("mergeSchema", "true")' in told

    changed = [*rows, (3, "x", "bob")]
    with pytest.raises(CheckpointError, match=r"column 'amount' is string now and was double in the table .*/t, "):
        run(spark, tmp_path, "id long, amount string, user string", changed)

    caplog.clear()
    rows.append((3, 3.0, "bob"))
    run(spark, tmp_path, "id long, amount double, user string", rows)  # the old schema still continues
    assert not warnings(caplog), "said once"
    table = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "t"))
    assert sorted((row.id, row.amount, row.user) for row in table.collect()) == [
        (1, 1.0, None),
        (2, 2.0, "ann"),
        (3, 3.0, "bob"),
    ]


def test_a_column_that_comes_back_with_another_type_is_refused_and_another_table_is_free(
    spark: Any, tmp_path: Path
) -> None:
    run(spark, tmp_path, "id long, amount double", ROWS)
    run(spark, tmp_path, "id long", [*ROWS, (2,)])
    rows = [*ROWS, (2,), (3, "x")]
    with pytest.raises(CheckpointError, match="column 'amount' is string now and was double"):
        run(spark, tmp_path, "id long, amount string", rows)
    run(spark, tmp_path, "id long, amount string", rows, table="other")
    assert [row.amount for row in spark.read.parquet(str(tmp_path / "other")).collect()] == ["x"]


def test_a_type_that_transform_changes_is_refused_before_the_batch_is_written(spark: Any, tmp_path: Path) -> None:
    def as_type(kind: str) -> Any:
        return lambda df, epoch: df.selectExpr("id", f"cast(amount as {kind}) amount")

    run(spark, tmp_path, "id long, amount double", ROWS, transform=as_type("int"))
    rows = [*ROWS, (2, 2.0)]
    with pytest.raises(CheckpointError, match="transform: column 'amount' is string now and was int in batch 0"):
        run(spark, tmp_path, "id long, amount double", rows, transform=as_type("string"))
    run(spark, tmp_path, "id long, amount double", rows, transform=as_type("int"))
    assert sorted(row.amount for row in spark.read.parquet(str(tmp_path / "t")).collect()) == [1, 2]


def test_fields_of_records_are_columns_too_and_names_are_compared_in_any_case(spark: Any) -> None:
    from pyspark.sql.types import DataType

    old = DataType.fromDDL("Id long not null, at struct<x: int, y: int>")
    new = DataType.fromDDL("id long, at struct<x: string, z: int>, note string")
    found = changes(old, new)
    assert found.retyped == (("at.x", "int", "string"),)
    assert found.added == ("note",)
    assert in_a_sentence(found) == "column 'at.x' is string now and was int"
    merged = together(old, DataType.fromDDL("id long, at struct<z: int>, note string"))
    assert merged.simpleString() == "struct<Id:bigint,at:struct<x:int,y:int,z:int>,note:string>"
