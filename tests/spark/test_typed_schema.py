"""A schema from a class of records or from Arrow, and such records and frames of pandas as rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NewType, Optional

import pandas as pd
import pyarrow as pa
import pytest

from streamactors.spark import SparkSetupError
from streamactors.spark.errors import RowError
from streamactors.spark.frames.elements import elements_of
from streamactors.spark.rows import Rows, largest
from streamactors.spark.schema import row_schema

msgspec = pytest.importorskip("msgspec", reason="msgspec is not installed")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

Code = NewType("Code", str)


@dataclass
class Line:
    item: Code
    price: Annotated[Decimal, "decimal(10, 2)"]
    note: str | None = None


@dataclass
class Order:
    id: int
    weight: float
    paid: bool
    raw: bytes
    day: date
    at: datetime
    took: timedelta
    lines: list[Line]
    tags: Mapping[str, Optional[int]]  # noqa: UP045  # as people write it
    small: Annotated[int, "int"] | None = field(default=None)


class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    id: int
    names: tuple[str, ...] = ()


class Struct(msgspec.Struct):  # type: ignore[misc, name-defined]
    id: int
    names: Sequence[str] = ()


def ddl(given: Any) -> str:
    fields = row_schema(given).spark.fields
    return ", ".join(f"{f.name} {f.dataType.simpleString()}{'' if f.nullable else ' not null'}" for f in fields)


def test_the_types_of_a_dataclass_are_the_types_of_the_columns(spark: Any) -> None:
    assert ddl(Order) == (
        "id bigint not null, weight double not null, paid boolean not null, raw binary not null, day date not null, "
        "at timestamp not null, took interval day to second not null, "
        "lines array<struct<item:string,price:decimal(10,2),note:string>> not null, tags map<string,bigint> not null, small int"
    )
    lines = row_schema(Order).spark["lines"].dataType
    assert not lines.containsNull
    assert [part.nullable for part in lines.elementType.fields] == [False, False, True]
    assert row_schema(Order).spark["tags"].dataType.valueContainsNull


def test_models_and_structs_give_the_schema_that_their_dataclass_would(spark: Any) -> None:
    assert ddl(Model) == ddl(Struct) == "id bigint not null, names array<string> not null"


def test_an_arrow_schema_is_taken_as_it_is(spark: Any) -> None:
    given = pa.schema(
        [pa.field("k", pa.string(), nullable=False), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))]
    )
    assert ddl(given) == "k string not null, n int, at timestamp"
    with pytest.raises(SparkSetupError, match=r"schema: Spark has no type for it: .*uint64"):
        row_schema(pa.schema([("n", pa.uint64())]))


@dataclass
class Tree:
    inner: list[Tree]


@dataclass
class Undecided:
    amount: Decimal


@dataclass
class Union2:
    amount: int | str


@dataclass
class Misspelled:
    n: Annotated[int, "intt"]


class Open(pydantic.BaseModel, extra="allow"):  # type: ignore[misc, name-defined, call-arg]
    n: int


class Wide(pydantic.BaseModel, extra="allow"):  # type: ignore[misc, name-defined, call-arg]
    id: int
    names: list[str]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (Tree, r"Tree.inner\[\] contains Tree again, and a schema has an end"),
        (Undecided, r'Undecided.amount is of type Decimal, which does not say its column type; .*"decimal\(10, 2\)"'),
        (Union2, r"Union2.amount is of type"),
        (Misspelled, "Misspelled.n is annotated with 'intt', which is no column type"),
        (Open, "the pydantic model Open allows fields that it does not name"),
        (int, "schema must be DDL .* a dataclass, a pydantic model, a msgspec struct or a pa.schema"),
    ],
)
def test_a_type_that_says_no_column_is_named(spark: Any, given: Any, error: str) -> None:
    with pytest.raises(SparkSetupError, match=error):
        row_schema(given)


TWO = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("names", pa.list_(pa.string()))])


def rows_of(*chunk: Any, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in Rows(TWO, **more).batches(list(chunk)) for row in batch.to_pylist()]


def test_models_and_structs_are_rows() -> None:
    wanted = [{"id": 1, "names": ["a"]}, {"id": 2, "names": []}]
    assert rows_of(Model(id=1, names=("a",)), Model(id=2)) == wanted
    assert rows_of(Struct(1, ["a"]), Struct(2)) == wanted
    assert rows_of(Model(id=1, names=("a",)), Struct(2)) == wanted
    with pytest.raises(RowError, match="field 'n' is not in the schema, which has id, names"):
        rows_of(Open(n=1, id=2, names=[]))
    with pytest.raises(RowError, match="field 'more' is not in the schema"):
        rows_of(Wide(id=2, names=[], more=3))


def test_a_frame_of_pandas_is_as_many_rows_as_it_has() -> None:
    frame = pd.DataFrame({"id": [1, 2], "names": [["a"], None]})
    assert rows_of(frame, (3, [])) == [
        {"id": 1, "names": ["a"]},
        {"id": 2, "names": None},
        {"id": 3, "names": []},
    ]
    assert largest([frame, (3, [])]) == 2
    assert rows_of(frame.iloc[:0]) == []
    bad: list[Any] = []
    assert rows_of(frame.set_index("id"), on_bad_row=lambda row, error: bad.append(str(error))) == []
    assert bad == [
        "a DataFrame of pandas does not fit the schema: its index 'id' is not a column; use frame.reset_index()"
    ]
    with pytest.raises(RowError, match="field 'id' must not be null"):
        rows_of(pd.DataFrame({"id": pd.array([1, None], dtype="Int64"), "names": [[], []]}))
    with pytest.raises(RowError, match="field 'id'"):
        rows_of(pd.DataFrame({"id": [1.5, 2.0], "names": [[], []]}))


def test_a_missing_value_of_pandas_is_a_null() -> None:
    schema = pa.schema([("v", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
    frame = pd.DataFrame({"v": [1.0, float("nan")], "at": [datetime(2026, 1, 1, tzinfo=UTC), pd.NaT]})
    (batch,) = Rows(schema).batches([frame])
    assert batch.to_pylist() == [{"v": 1.0, "at": datetime(2026, 1, 1, tzinfo=UTC)}, {"v": None, "at": None}]


def test_rows_of_spark_come_as_frames_of_pandas_where_they_are_asked_for() -> None:
    (frame,) = elements_of("who", "pandas")(pa.record_batch({"n": [1, 2]}))
    assert isinstance(frame, pd.DataFrame)
    assert frame.n.tolist() == [1, 2]
    assert "pandas" in sys.modules
