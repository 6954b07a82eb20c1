"""A null where the schema forbids it is refused with the path of its field, at any depth, in rows and in Arrow data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from streamactors.spark.rows import Rows
from streamactors.spark.schema import row_schema

INT = t.IntegerType()


@dataclass
class A:
    a: int | None


def struct(kind: t.DataType) -> t.StructType:
    return t.StructType([t.StructField("a", kind, False)])


ONE = struct(INT)
CASES: list[tuple[t.DataType, Any, Any, str]] = [
    (INT, None, 1, "x"),
    (ONE, {"a": None}, {"a": 1}, "x.a"),
    (ONE, {}, {"a": 1}, "x.a"),
    (ONE, (None,), (1,), "x.a"),
    (ONE, A(None), A(1), "x.a"),
    (t.ArrayType(INT, False), [1, None], [1], "x[1]"),
    (t.MapType(t.StringType(), INT, False), {"k": None}, {"k": 1}, "x['k']"),
    (t.MapType(t.StringType(), INT), {None: 1}, {"k": None}, "x.key"),
    (struct(ONE), {"a": {"a": None}}, {"a": {"a": 1}}, "x.a.a"),
    (struct(ONE), {"a": None}, {"a": {"a": 1}}, "x.a"),
    (t.ArrayType(ONE, False), [{"a": 1}, {"a": None}], [{"a": 1}], "x[1].a"),
    (t.ArrayType(t.ArrayType(INT, False)), [None, [1], [None]], [None], "x[2][0]"),
    (t.MapType(t.StringType(), ONE), {"k": {"a": None}}, {"k": None}, "x['k'].a"),
]
NAMES = [f"{kind.simpleString()} {value}" for kind, value, _, _ in CASES]


def judged(schema: pa.Schema, chunk: list[Any]) -> tuple[list[Any], list[str]]:
    dead: list[str] = []
    rows = Rows(schema, lambda _, error: dead.append(str(error)))
    return [row["x"] for batch in rows.batches(chunk) for row in batch.to_pylist()], dead


def schema_of(kind: t.DataType, required: bool = True) -> pa.Schema:
    return row_schema(t.StructType([t.StructField("x", kind, not required)])).arrow


@pytest.mark.parametrize(("kind", "bad", "good", "path"), CASES, ids=NAMES)
def test_a_null_in_a_row_is_refused_with_its_path(kind: t.DataType, bad: Any, good: Any, path: str) -> None:
    found, dead = judged(schema_of(kind), [(good,), (bad,), (good,)])
    assert len(found) == 2
    (sentence,) = dead
    assert f"field '{path}' must not be null" in sentence


def nullable(kind: pa.DataType) -> pa.DataType:
    """The type with nulls allowed everywhere, as Arrow data has it that was read or computed."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, nullable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, nullable(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(nullable(kind.value_type))
    return kind


def declared(kind: pa.DataType) -> pa.DataType:
    return kind


@pytest.mark.parametrize("type_of", [nullable, declared])
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize(
    ("kind", "bad", "good", "path"),
    [case for case in CASES if case[3] != "x.key" and not isinstance(case[1], A)],
)
def test_a_null_in_arrow_data_is_refused_also_if_the_schema_of_the_data_forbids_it(
    kind: t.DataType, bad: Any, good: Any, path: str, table: bool, type_of: Callable[[pa.DataType], pa.DataType]
) -> None:
    """Arrow checks no data against the schema that the data carries."""
    schema = schema_of(kind)

    def data(value: Any) -> Any:
        column = pa.array([value], type=type_of(schema.field("x").type))
        batch = pa.RecordBatch.from_arrays(
            [column], schema=pa.schema([pa.field("x", column.type, type_of is nullable)])
        )
        return pa.Table.from_batches([batch]) if table else batch

    found, dead = judged(schema, [data(good), data(bad), data(good)])
    assert len(found) == 2
    (sentence,) = dead
    assert "must not be null" in sentence
    assert f"'{path[0]}" in sentence


@pytest.mark.parametrize(("kind", "good"), [(kind, good) for kind, _, good, _ in CASES if kind != INT])
def test_what_lies_in_a_null_is_no_null_of_a_field(kind: t.DataType, good: Any) -> None:
    schema = schema_of(kind, required=False)
    found, dead = judged(schema, [(None,), (good,), (None,)])
    assert (len(found), found[0], found[2], dead) == (3, None, None, [])
    array = pa.RecordBatch.from_pylist([{"x": row} for row in found], schema=schema)
    again, dead = judged(schema, [array, array.slice(1), pa.table({"x": array.column(0).slice(0, 2)})])
    assert (again, dead) == (found + found[1:] + found[:2], [])
