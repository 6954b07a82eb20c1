"""Rows become Arrow chunk by chunk; one that does not fit is named with its field, or goes to the dead letters."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamactors.spark.errors import RowError
from streamactors.spark.rows import Rows

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("n", pa.int64())])
NESTED = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("at", pa.struct([pa.field("x", pa.float64()), pa.field("tags", pa.list_(pa.string()))])),
        pa.field("all", pa.list_(pa.struct([pa.field("a", pa.int64())]))),
        pa.field("by", pa.map_(pa.string(), pa.struct([pa.field("a", pa.int64())]))),
    ]
)


@dataclass
class Row:
    k: str
    n: int | None = None


@dataclass
class Place:
    x: float
    tags: list[str]


def rows_of(chunk: list[Any], schema: pa.Schema = SCHEMA, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in Rows(schema, **more).batches(chunk) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "chunk",
    [
        [("a", 1), ("b", None)],
        [["a", 1], ["b", None]],
        [{"k": "a", "n": 1}, {"k": "b"}],
        [{"n": 1, "k": "a"}, {"n": None, "k": "b"}],
        [Row("a", 1), Row("b")],
        [namedtuple("Pair", "k n")("a", 1), namedtuple("Pair", "k n")("b", None)],
        [("a", 1), {"k": "b"}],
        [Row("a", 1), ("b", None)],
        [pa.RecordBatch.from_pylist([{"k": "a", "n": 1}, {"k": "b", "n": None}], schema=SCHEMA)],
        [pa.Table.from_pylist([{"k": "a", "n": 1}], schema=SCHEMA), ("b", None)],
    ],
    ids=lambda chunk: "+".join(dict.fromkeys(type(row).__name__ for row in chunk)),
)
def test_every_kind_of_row_gives_the_same(chunk: list[Any]) -> None:
    assert rows_of(chunk) == [{"k": "a", "n": 1}, {"k": "b", "n": None}]


def test_arrow_data_of_the_schema_passes_without_a_copy() -> None:
    batch = pa.RecordBatch.from_pylist([{"k": "a", "n": 1}], schema=SCHEMA)
    assert Rows(SCHEMA).batches([batch])[0] is batch


def test_arrow_data_in_another_order_and_of_narrower_types_is_cast() -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32()), "k": pa.array(["a"], pa.large_string())})
    (found,) = Rows(SCHEMA).batches([batch])
    assert found.schema == SCHEMA
    assert found.to_pylist() == [{"k": "a", "n": 1}]


def test_structs_within_rows_may_be_tuples_dicts_and_dataclasses() -> None:
    found = rows_of(
        [
            (1, Place(1.5, ["a"]), [(1,), {"a": 2}], {"p": (7,)}),
            (2, (2.5, []), None, {"q": {"a": 8}, "r": None}),
            {"id": 3, "at": None, "all": [None], "by": {}},
        ],
        NESTED,
    )
    assert found == [
        {"id": 1, "at": {"x": 1.5, "tags": ["a"]}, "all": [{"a": 1}, {"a": 2}], "by": [("p", {"a": 7})]},
        {"id": 2, "at": {"x": 2.5, "tags": []}, "all": None, "by": [("q", {"a": 8}), ("r", None)]},
        {"id": 3, "at": None, "all": [None], "by": []},
    ]


def test_the_values_of_every_kind_come_through() -> None:
    schema = pa.schema(
        [
            ("t", pa.timestamp("us", tz="UTC")),
            ("d", pa.date32()),
            ("m", pa.decimal128(10, 2)),
            ("b", pa.binary()),
            ("f", pa.float32()),
            ("o", pa.bool_()),
        ]
    )
    row = (datetime(2013, 1, 1, 5, 15, tzinfo=UTC), date(2013, 1, 1), Decimal("12.34"), b"\x00", 1.5, True)
    assert [tuple(found.values()) for found in rows_of([row], schema)] == [row]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("a", "x"), r"row \('a', 'x'\): field 'n' is 'x', not int64"),
        (("a", 1.5), "field 'n' is 1.5, not int64"),
        (("a", 1 << 70), "field 'n'"),
        ((None, 1), "field 'k' must not be null"),
        ((5, 1), "field 'k' is 5, not string"),
        (("a",), "it has 1 values, the schema 2 fields"),
        (("a", 1, 2), "it has 3 values, the schema 2 fields"),
        ({"k": "a", "m": 1}, "field 'm' is not in the schema"),
        ({"n": 1}, "field 'k' must not be null"),
        ("text", "not str"),
        (7, "not int"),
        (None, "not NoneType"),
        (Place(1.0, []), "it has no field 'k'"),
    ],
)
@pytest.mark.parametrize("among", [0, 2])
def test_a_row_that_does_not_fit_is_named_with_its_field(row: Any, said: str, among: int) -> None:
    good = [("good", 1)] * among
    with pytest.raises(RowError, match=said):
        rows_of([*good, row, *good])


@pytest.mark.parametrize("kind", [pa.timestamp("us", tz="UTC"), pa.date32()])
@pytest.mark.parametrize("value", [1_357_016_400_000, 1.5])
def test_a_number_is_no_moment_whose_units_could_be_guessed(kind: pa.DataType, value: float) -> None:
    with pytest.raises(RowError, match="may be seconds, milliseconds or microseconds"):
        rows_of([(value,)], pa.schema([("at", kind)]))


def test_arrow_data_that_does_not_fit_says_what_it_has() -> None:
    with pytest.raises(RowError, match="it has z int64"):
        rows_of([pa.RecordBatch.from_pydict({"z": [1]})])


def test_dead_letters_get_the_rows_that_do_not_fit_and_the_others_go_on() -> None:
    dead: list[tuple[Any, str]] = []
    found = rows_of(
        [("a", 1), ("b", "x"), "junk", {"k": "c"}],
        on_bad_row=lambda row, error: dead.append((row, str(error))),
    )
    assert found == [{"k": "a", "n": 1}, {"k": "c", "n": None}]
    assert [row for row, _ in dead] == [("b", "x"), "junk"]
    assert "field 'n'" in dead[0][1]


def test_a_chunk_of_nothing_but_dead_letters_gives_no_batch() -> None:
    assert rows_of([("b", "x")], on_bad_row=lambda row, error: None) == []


def test_a_frame_of_pandas_with_a_missing_integer_is_refused_with_the_way_out() -> None:
    """`pd.DataFrame({"id": [1, None]})` has a float64 column. The error spoke of a fraction, and there is none."""
    import pandas as pd

    rows = Rows(pa.schema([("id", pa.int64())]))
    frame = pd.DataFrame({"id": [1, None]})
    with pytest.raises(
        RowError, match=r"column 'id' is float64 because it has missing values: use astype\({'id': 'Int64'}\)"
    ):
        rows.batches([frame])
    (batch,) = rows.batches([frame.astype({"id": "Int64"})])
    assert batch.column("id").to_pylist() == [1, None]
    with pytest.raises(RowError, match="a fraction would be lost") as raised:
        rows.batches([pd.DataFrame({"id": [1.5]})])
    assert "missing" not in str(raised.value)
