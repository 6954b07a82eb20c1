"""One table of Spark's types and values: a value comes through exactly or is refused with its sentence, wherever it comes from.

Each line is tried in a tuple, a dict, an array, a map and a struct, and, where it has Arrow data, as Arrow data alone and within arrays, maps
and structs. The verdict is always the same. The file has over 400 lines because it is one table."""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from streamactors.spark.errors import RowError
from streamactors.spark.rows import Rows
from streamactors.spark.schema import row_schema

UTC = dt.UTC
CET = dt.timezone(dt.timedelta(hours=1))
DAY = dt.date(2024, 1, 1)
NOON = dt.datetime(2024, 1, 1, 12)
TAGS = t.ArrayType(t.StringType())
PAIR = t.StructType([t.StructField("a", t.IntegerType()), t.StructField("b", t.StringType())])


@dataclass(frozen=True)
class Refused:
    """The verdict on a value that does not fit, with a part of its sentence."""

    why: str


@dataclass
class Pair:
    a: int
    b: str


@dataclass
class Triple(Pair):
    c: int


NUMBER = Refused("may be seconds, milliseconds or microseconds")
MISSING = Refused("give None")

ROWS: list[tuple[t.DataType, Any, Any]] = [
    # integers
    (t.LongType(), 5, 5),
    (t.LongType(), np.int32(5), 5),
    (t.LongType(), np.uint64(5), 5),
    (t.LongType(), np.array(5), 5),
    (t.LongType(), pa.scalar(5), 5),
    (t.LongType(), 1.0, Refused("is 1.0, not int64")),
    (t.LongType(), np.float64(1.0), Refused("not int64")),
    (t.LongType(), True, Refused("a boolean is not a number")),
    (t.LongType(), np.True_, Refused("not int64")),
    (t.LongType(), "5", Refused("not int64")),
    (t.LongType(), float("nan"), Refused("not int64")),
    (t.LongType(), Decimal(5), Refused("not int64")),
    (t.LongType(), NOON, Refused("not int64")),
    (t.LongType(), pd.NA, Refused("is <NA>, not int64")),
    (t.LongType(), np.timedelta64(5, "s"), Refused("not int64")),
    (t.LongType(), np.datetime64("2024-01-01", "ns"), Refused("not int64")),
    (t.ByteType(), 127, 127),
    (t.ByteType(), 128, Refused("is 128, not int8")),
    (t.IntegerType(), np.int64(1 << 40), Refused("not int32")),
    # floats
    (t.DoubleType(), 0.5, 0.5),
    (t.DoubleType(), 5, 5.0),
    (t.DoubleType(), np.float32(0.5), 0.5),
    (t.DoubleType(), np.int8(5), 5.0),
    (t.DoubleType(), np.ma.masked, MISSING),
    (t.DoubleType(), (1 << 53) + 1, Refused("not double")),
    (t.DoubleType(), True, Refused("a float or an int is needed")),
    (t.DoubleType(), np.True_, Refused("a float or an int is needed")),
    (t.DoubleType(), Decimal("0.5"), Refused("a float or an int is needed")),
    (t.DoubleType(), pd.NA, MISSING),
    (t.FloatType(), 0.5, 0.5),
    (t.FloatType(), float("inf"), float("inf")),
    (t.FloatType(), np.float32(3.4028235e38), 3.4028234663852886e38),
    (t.FloatType(), 1e300, Refused("too large")),
    (t.FloatType(), np.float64(-1e300), Refused("too large for a 32-bit float")),
    (t.FloatType(), (1 << 25) + 1, Refused("not float")),
    # booleans
    (t.BooleanType(), True, True),
    (t.BooleanType(), np.False_, False),
    (t.BooleanType(), 1, Refused("True or False is needed")),
    (t.BooleanType(), 0.5, Refused("True or False is needed")),
    (t.BooleanType(), np.int64(1), Refused("True or False is needed")),
    (t.BooleanType(), "true", Refused("True or False is needed")),
    # decimals
    (t.DecimalType(10, 2), Decimal("1.20"), Decimal("1.20")),
    (t.DecimalType(10, 2), Decimal("1.2000"), Decimal("1.20")),
    (t.DecimalType(10, 2), 5, Decimal("5.00")),
    (t.DecimalType(10, 2), np.int64(5), Decimal("5.00")),
    (t.DecimalType(10, 2), Decimal("1.235"), Refused("not decimal128")),
    (t.DecimalType(10, 2), 1.235, Refused("a float would be rounded")),
    (t.DecimalType(10, 2), np.float64(1.5), Refused("a float would be rounded")),
    (t.DecimalType(10, 2), 10**9, Refused("not decimal128")),
    (t.DecimalType(10, 2), True, Refused("a Decimal or an int is needed")),
    (t.DecimalType(10, 2), Decimal("NaN"), Refused("not decimal128")),
    # strings and bytes
    (t.StringType(), "é", "é"),
    (t.StringType(), np.str_("x"), "x"),
    (t.StringType(), "é".encode(), "é"),
    (t.StringType(), b"\xff", Refused("not string")),
    (t.StringType(), 5, Refused("is 5, not string")),
    (t.StringType(), np.int64(5), Refused("a string is needed")),
    (t.StringType(), pd.NaT, MISSING),
    (t.BinaryType(), b"\xff", b"\xff"),
    (t.BinaryType(), bytearray(b"x"), b"x"),
    (t.BinaryType(), memoryview(b"x"), b"x"),
    (t.BinaryType(), np.bytes_(b"x"), b"x"),
    (t.BinaryType(), [1, 2], Refused("bytes are needed")),
    # dates
    (t.DateType(), DAY, DAY),
    (t.DateType(), np.datetime64("2024-01-01"), DAY),
    (t.DateType(), NOON, Refused("a datetime has a time of day")),
    (t.DateType(), pd.Timestamp(NOON), Refused("a datetime has a time of day")),
    (t.DateType(), np.datetime64("2024-01-01T12"), Refused("a datetime has a time of day")),
    (t.DateType(), pd.NaT, MISSING),
    (t.DateType(), np.datetime64("NaT"), MISSING),
    (t.DateType(), 5, NUMBER),
    (t.DateType(), np.int64(5), NUMBER),
    (t.DateType(), np.int32(20_200_101), NUMBER),
    (t.DateType(), 0.5, NUMBER),
    (t.DateType(), Decimal(5), NUMBER),
    (t.DateType(), True, Refused("a date is needed")),
    (t.DateType(), "2024-01-01", Refused("a date is needed")),
    # timestamps
    (t.TimestampType(), NOON, NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), dt.datetime(2024, 1, 1, 13, tzinfo=CET), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), pd.Timestamp(NOON), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), np.datetime64("2024-01-01T12", "ns"), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), np.datetime64("2024-01-01T12", "s"), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), pd.Timestamp(5), Refused("nanoseconds")),
    (t.TimestampType(), np.datetime64(5, "ns"), Refused("nanoseconds")),
    (t.TimestampType(), pd.NaT, MISSING),
    (t.TimestampType(), np.datetime64("NaT"), MISSING),
    (t.TimestampType(), DAY, Refused("a datetime is needed")),
    (t.TimestampType(), np.datetime64("2024-01-01"), Refused("a datetime is needed")),
    (t.TimestampType(), 1_700_000_000_000, NUMBER),
    (t.TimestampType(), np.int64(5), NUMBER),
    (t.TimestampType(), 0.5, NUMBER),
    (t.TimestampType(), "2024-01-01", Refused("a datetime is needed")),
    (t.TimestampNTZType(), NOON, NOON),
    (t.TimestampNTZType(), NOON.replace(tzinfo=CET), Refused("without a time zone")),
    # times and durations
    (t.TimeType(), dt.time(12), dt.time(12)),
    (t.TimeType(), dt.time(12, tzinfo=UTC), Refused("has no time zone")),
    (t.TimeType(), 5, NUMBER),
    (t.TimeType(), np.int64(5), NUMBER),
    (t.TimeType(), NOON, Refused("a time is needed")),
    (t.DayTimeIntervalType(), dt.timedelta(1), dt.timedelta(1)),
    (t.DayTimeIntervalType(), np.timedelta64(5, "s"), dt.timedelta(seconds=5)),
    (t.DayTimeIntervalType(), pd.Timedelta("1s"), dt.timedelta(seconds=1)),
    (t.DayTimeIntervalType(), pd.Timedelta(5), Refused("nanoseconds")),
    (t.DayTimeIntervalType(), np.timedelta64(5, "ns"), Refused("nanoseconds")),
    (t.DayTimeIntervalType(), 5, NUMBER),
    (t.DayTimeIntervalType(), np.timedelta64("NaT"), MISSING),
    # arrays
    (TAGS, ["a", None], ["a", None]),
    (TAGS, ("a",), ["a"]),
    (TAGS, {"a"}, ["a"]),
    (TAGS, np.array(["a", "b"]), ["a", "b"]),
    (TAGS, pd.Series(["a"]), ["a"]),
    (TAGS, "abc", Refused("a list is needed; str is one value, not an array of its parts")),
    (TAGS, np.str_("abc"), Refused("a list is needed; str")),
    (TAGS, b"abc", Refused("a list is needed; bytes")),
    (TAGS, {"a": 1}, Refused("a list is needed, not dict")),
    (TAGS, 5, Refused("a list is needed, not int")),
    (TAGS, ["a", 5], Refused("[1]' is 5, not string")),
    (t.ArrayType(t.LongType()), np.array([1, 2], np.int16), [1, 2]),
    (t.ArrayType(t.LongType()), np.ma.array([1, 2], mask=[False, True]), Refused("[1]' is masked, not int64")),
    (t.ArrayType(t.LongType()), array("q", [1, 2]), [1, 2]),
    (t.ArrayType(t.LongType()), np.array([1.5]), Refused("[0]' is 1.5, not int64")),
    (t.ArrayType(t.LongType()), b"ab", Refused("a list is needed; bytes")),
    (t.ArrayType(t.ByteType()), [1, 1000], Refused("[1]' is 1000, not int8")),
    (t.ArrayType(t.TimestampType()), np.array(["2024-01-01T12"], "M8[ns]"), [NOON.replace(tzinfo=UTC)]),
    (t.ArrayType(t.TimestampType()), np.array(["NaT"], "M8[ns]"), MISSING),
    (t.ArrayType(t.ArrayType(t.LongType())), np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    # maps
    (t.MapType(t.StringType(), t.LongType()), {"k": np.int64(1)}, [("k", 1)]),
    (t.MapType(t.StringType(), t.LongType()), [("k", None)], [("k", None)]),
    (t.MapType(t.StringType(), t.LongType()), {np.str_("k"): 1}, [("k", 1)]),
    (t.MapType(t.StringType(), t.LongType()), {"k": 1.5}, Refused("['k']' is 1.5, not int64")),
    (t.MapType(t.StringType(), t.LongType()), {None: 1}, Refused(".key' must not be null")),
    (t.MapType(t.StringType(), t.LongType()), {5: 1}, Refused(".key' is 5, not string")),
    (t.MapType(t.StringType(), t.StringType()), ["ab"], Refused("a pair (key, value) is needed, got 'ab'")),
    (t.MapType(t.StringType(), t.StringType()), "ab", Refused("a dict or a list of pairs is needed, not str")),
    # structs
    (PAIR, {"a": np.int64(1), "b": "x"}, {"a": 1, "b": "x"}),
    (PAIR, {"a": 1}, {"a": 1, "b": None}),
    (PAIR, (1, "x"), {"a": 1, "b": "x"}),
    (PAIR, Pair(1, "x"), {"a": 1, "b": "x"}),
    (PAIR, Triple(1, "x", 2), Refused("field 'c' is not in the schema, which has a, b")),
    (PAIR, {"a": 1, "c": 2}, Refused("field 'c' is not in the schema, which has a, b")),
    (PAIR, (1,), Refused("it has 1 values, the schema 2 fields")),
    (PAIR, "ab", Refused("a tuple, a dict or a record is needed, not str")),
    (PAIR, {"a": 1.5, "b": "x"}, Refused(".a' is 1.5, not int32")),
    (PAIR, {"a": pd.NaT, "b": "x"}, Refused(".a' is NaT, not int32")),
]


@dataclass(frozen=True)
class Place:
    """Where a value lies: the type around its type, the row around it, and what is found of the row."""

    name: str
    kind: Callable[[t.DataType], t.DataType]
    row: Callable[[Any], Any]
    found: Callable[[Any], Any]
    arrow: Callable[[pa.Array], pa.Array]


def struct_of(array: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([array], names=["s"])


PLACES = [
    Place("alone", lambda kind: kind, lambda value: (value,), lambda found: found, lambda array: array),
    Place("in a dict", lambda kind: kind, lambda value: {"x": value}, lambda found: found, lambda array: array),
    Place(
        "in an array",
        t.ArrayType,
        lambda value: ([value],),
        lambda found: found[0],
        lambda array: pa.LargeListArray.from_arrays(pa.array(range(len(array) + 1), pa.int64()), array),
    ),
    Place(
        "in a map",
        lambda kind: t.MapType(t.StringType(), kind),
        lambda value: ({"k": value},),
        lambda found: found[0][1],
        lambda array: pa.MapArray.from_arrays(
            pa.array(range(len(array) + 1), pa.int32()), pa.array(["k"] * len(array)), array
        ),
    ),
    Place(
        "in a struct",
        lambda kind: t.StructType([t.StructField("s", kind)]),
        lambda value: ({"s": value},),
        lambda found: found["s"],
        struct_of,
    ),
]


def verdict(kind: t.DataType, element: Any, place: Place, among: list[Any]) -> Any:
    """Return the value that comes through, or the sentence of the dead letter."""
    dead: list[str] = []
    rows = Rows(
        row_schema(t.StructType([t.StructField("x", place.kind(kind))])).arrow, lambda _, error: dead.append(str(error))
    )
    found = [row["x"] for batch in rows.batches([*among, element]) for row in batch.to_pylist()]
    assert len(found) + len(dead) == len(among) + 1
    assert found[: len(among)] == [None] * len(among)
    return dead[0] if dead else place.found(found[-1])


def check(got: Any, expected: Any) -> None:
    if isinstance(expected, Refused):
        assert isinstance(got, str)
        assert expected.why in got
    else:
        assert got == expected


def named(value: Any) -> str:
    """Return a name that is the same in every process: an address is left out."""
    return repr(value).partition(" at 0x")[0][:40]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize(
    ("kind", "value", "expected"), ROWS, ids=[f"{kind.simpleString()} {named(value)}" for kind, value, _ in ROWS]
)
@pytest.mark.parametrize("among", [0, 2])
def test_a_value_in_a_row_comes_through_exactly_or_is_refused(
    kind: t.DataType, value: Any, expected: Any, place: Place, among: int
) -> None:
    check(verdict(kind, place.row(value), place, [(None,)] * among), expected)


ARROW: list[tuple[t.DataType, pa.Array, Any]] = [
    (t.LongType(), pa.array([5], pa.int8()), 5),
    (t.LongType(), pa.array([5], pa.uint64()), 5),
    (t.LongType(), pa.array([1 << 63], pa.uint64()), Refused("not int64")),
    (t.LongType(), pa.array([None], pa.null()), None),
    (t.LongType(), pa.array([1.0]), Refused("a fraction would be lost")),
    (t.LongType(), pa.array([True]), Refused("not int64")),
    (t.LongType(), pa.array(["5"]), Refused("not int64")),
    (t.LongType(), pa.array([NOON]), Refused("not int64")),
    (t.LongType(), pa.array([Decimal(5)]), Refused("not int64")),
    (t.LongType(), pa.array([dt.timedelta(1)]), Refused("not int64")),
    (t.ByteType(), pa.array([128]), Refused("not int8")),
    (t.DoubleType(), pa.array([0.5], pa.float32()), 0.5),
    (t.DoubleType(), pa.array([5]), 5.0),
    (t.DoubleType(), pa.array([(1 << 53) + 1]), Refused("not double")),
    (t.DoubleType(), pa.array([True]), Refused("not double")),
    (t.DoubleType(), pa.array([Decimal("0.5")]), Refused("not double")),
    (t.DoubleType(), pa.array(["0.5"]), Refused("not double")),
    (t.FloatType(), pa.array([0.5]), 0.5),
    (t.FloatType(), pa.array([float("inf")]), float("inf")),
    (t.FloatType(), pa.array([1e300]), Refused("too large for a 32-bit float")),
    (t.BooleanType(), pa.array([True]), True),
    (t.BooleanType(), pa.array([0.5]), Refused("not bool")),
    (t.BooleanType(), pa.array([1]), Refused("not bool")),
    (t.BooleanType(), pa.array(["true"]), Refused("not bool")),
    (t.DecimalType(10, 2), pa.array([Decimal("1.20000")]), Decimal("1.20")),
    (t.DecimalType(10, 2), pa.array([Decimal("1.235")]), Refused("not decimal128")),
    (t.DecimalType(10, 2), pa.array([5]), Decimal("5.00")),
    (t.DecimalType(10, 2), pa.array([10**9]), Refused("not decimal128")),
    (t.DecimalType(10, 2), pa.array([1.235]), Refused("a float would be rounded")),
    (t.DecimalType(10, 2), pa.array([1.5]), Refused("a float would be rounded")),
    (t.StringType(), pa.array(["x"], pa.large_string()), "x"),
    (t.StringType(), pa.array(["x"], pa.string_view()), "x"),
    (t.StringType(), pa.array(["x"]).dictionary_encode(), "x"),
    (t.StringType(), pa.array([b"x"]), "x"),
    (t.StringType(), pa.array([b"\xff"]), Refused("not string")),
    (t.StringType(), pa.array([5]), Refused("not string")),
    (t.StringType(), pa.array([NOON]), Refused("not string")),
    (t.BinaryType(), pa.array([b"xy"], pa.binary(2)), b"xy"),
    (t.BinaryType(), pa.array([5]), Refused("not binary")),
    (t.DateType(), pa.array([DAY], pa.date64()), DAY),
    (t.DateType(), pa.array([NOON]), Refused("not date32")),
    (t.DateType(), pa.array([5]), NUMBER),
    (t.DateType(), pa.array(["2024-01-01"]), Refused("not date32")),
    (t.TimestampType(), pa.array([NOON], pa.timestamp("ns")), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")), NOON.replace(tzinfo=UTC)),
    (t.TimestampType(), pa.array([5], pa.timestamp("ns")), Refused("would lose data")),
    (t.TimestampType(), pa.array([1_700_000_000_000]), NUMBER),
    (t.TimestampType(), pa.array([0.5]), NUMBER),
    (t.TimestampType(), pa.array([DAY]), Refused("not timestamp")),
    (t.TimestampType(), pa.array(["2024-01-01"]), Refused("not timestamp")),
    (t.TimestampNTZType(), pa.array([NOON], pa.timestamp("ms")), NOON),
    (t.TimestampNTZType(), pa.array([NOON], pa.timestamp("us", "UTC")), Refused("without a time zone")),
    (t.TimeType(), pa.array([dt.time(12)], pa.time32("s")), dt.time(12)),
    (t.TimeType(), pa.array([5]), NUMBER),
    (t.TimeType(), pa.array([NOON]), Refused("not time64")),
    (t.DayTimeIntervalType(), pa.array([dt.timedelta(1)], pa.duration("s")), dt.timedelta(1)),
    (t.DayTimeIntervalType(), pa.array([5], pa.duration("ns")), Refused("would lose data")),
    (t.DayTimeIntervalType(), pa.array([5]), NUMBER),
    (TAGS, pa.array([["a", None]], pa.large_list(pa.large_string())), ["a", None]),
    (TAGS, pa.array([["a", "b"]], pa.list_(pa.string(), 2)), ["a", "b"]),
    (TAGS, pa.array([["a"]], pa.list_view(pa.string())), ["a"]),
    (TAGS, pa.array(["abc"]), Refused("not list")),
    (TAGS, pa.array([[5]]), Refused("[]' is int64, not string")),
    (t.MapType(t.StringType(), t.LongType()), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [("k", 1)]),
    (
        t.MapType(t.StringType(), t.LongType()),
        pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        Refused(".value' is double, not int64"),
    ),
    (PAIR, pa.array([{"b": "x", "a": 1}]), {"a": 1, "b": "x"}),
    (PAIR, pa.array([{"a": 1}]), {"a": 1, "b": None}),
    (PAIR, pa.array([{"c": "1", "d": "x"}]), Refused(".c' is not in the schema, which has a, b")),
    (PAIR, pa.array([{"a": 1.5, "b": "x"}]), Refused(".a' is double, not int32")),
    (PAIR, pa.array([{"a": "1"}]), Refused(".a' is string, not int32")),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize(
    ("kind", "data", "expected"), ARROW, ids=[f"{kind.simpleString()} {data.type} {data[0]}" for kind, data, _ in ARROW]
)
def test_arrow_data_comes_through_exactly_or_is_refused(
    kind: t.DataType, data: pa.Array, expected: Any, place: Place
) -> None:
    around = place.arrow(data)
    check(verdict(kind, pa.record_batch({"x": around}), place, []), expected)
    check(verdict(kind, pa.table({"x": around}), place, []), expected)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize(
    ("kind", "data", "expected"), ARROW, ids=[f"{kind.simpleString()} {data.type} {data[0]}" for kind, data, _ in ARROW]
)
def test_arrow_data_has_the_verdict_of_its_values_in_rows(
    kind: t.DataType, data: pa.Array, expected: Any, place: Place
) -> None:
    value = data[0].as_py()
    got = verdict(kind, place.row(value), place, [])
    assert isinstance(got, str) == isinstance(expected, (Refused, str)) or got == expected


@pytest.mark.parametrize(
    ("frame", "kind", "expected"),
    [
        (pd.DataFrame({"x": [pd.NaT]}), t.DateType(), [None]),  # in Arrow data pandas' missing values are nulls
        (pd.DataFrame({"x": [pd.Timestamp(NOON)]}), t.TimestampType(), [NOON.replace(tzinfo=UTC)]),
        (pd.DataFrame({"x": [pd.Timestamp(NOON)]}), t.DateType(), Refused("not date32")),
        (pd.DataFrame({"x": [1.0, None]}), t.LongType(), Refused("a fraction would be lost")),
        (pd.DataFrame({"x": [0.5]}), t.BooleanType(), Refused("not bool")),
        (pd.DataFrame({"x": pd.Categorical(["a", "b", "a"])}), t.StringType(), ["a", "b", "a"]),
        (pd.DataFrame({"x": [[1, 2], None]}), t.ArrayType(t.LongType()), [[1, 2], None]),
    ],
)
def test_a_data_frame_of_pandas_is_judged_as_its_arrow_data(frame: Any, kind: t.DataType, expected: Any) -> None:
    dead: list[str] = []
    rows = Rows(row_schema(t.StructType([t.StructField("x", kind)])).arrow, lambda _, error: dead.append(str(error)))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if pa.types.is_timestamp(table["x"].type) and table["x"].null_count == len(table):
        table = pa.table({"x": pa.nulls(len(table))})
    found = [row["x"] for batch in rows.batches([table]) for row in batch.to_pylist()]
    check(dead[0] if dead else found, expected)


def test_a_name_that_the_schema_does_not_have_is_refused_in_every_kind_of_row() -> None:
    schema = row_schema(PAIR).arrow
    for element in (
        {"a": 1, "b": "x", "c": 2},
        Triple(1, "x", 2),
        pa.record_batch({"a": [1], "b": ["x"], "c": [2]}),
        pa.table({"c": [2]}),
    ):
        with pytest.raises(RowError, match="field 'c' is not in the schema, which has a, b"):
            Rows(schema).batches([element])


def test_a_name_that_is_missing_is_a_null_in_every_kind_of_row_but_a_dataclass() -> None:
    schema = row_schema(PAIR).arrow
    for element in ({"a": 1}, pa.record_batch({"a": [1]}), pa.table({"a": [1]})):
        (batch,) = Rows(schema).batches([element])
        assert batch.to_pylist() == [{"a": 1, "b": None}]


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(RowError, match="field 'a' occurs twice"):
        Rows(row_schema(PAIR).arrow).batches([twice])


def _rows(kind: pa.DataType) -> Rows:
    return Rows(pa.schema([pa.field("x", kind)]))


@pytest.mark.parametrize(
    "rest", [[1.5], [0.0, 1.0, 2.5], [1.5] * 60, [None, 0.0, 1.5]], ids=["one", "zeros", "many", "nulls"]
)
@pytest.mark.parametrize("many", [1, 200])
def test_a_boolean_among_numbers_is_found_wherever_it_is(rest: list[Any], many: int) -> None:
    """Arrow makes a 1.0 of it, as of a one that is a number."""
    numbers = _rows(pa.float64())
    with pytest.raises(RowError, match=r"field 'x' is True, not double"):
        numbers.batches([(value,) for value in rest * many] + [(True,), (1.5,)])
    (batch,) = numbers.batches([(value,) for value in rest * many])
    assert batch.column(0).to_pylist() == rest * many
    lists = _rows(pa.list_(pa.float64()))
    with pytest.raises(RowError, match=rf"field 'x\[{len(rest)}\]' is True, not double"):
        lists.batches([(rest,), (None,)] * many + [([*rest, True],)])
    (batch,) = lists.batches([(rest,), (None,)] * many)
    assert batch.column(0).to_pylist() == [rest, None] * many


def test_a_string_is_no_array_of_its_letters_among_arrays_and_no_pair_of_a_map() -> None:
    for kind, good, bad in [
        (pa.list_(pa.string()), ["a"], "bc"),
        (pa.list_(pa.float64()), [1.5], b"bc"),
        (pa.list_(pa.list_(pa.string())), [["a"]], ["bc"]),
        (pa.map_(pa.string(), pa.string()), [("a", "b")], ["cd"]),
        (pa.map_(pa.string(), pa.string()), {"a": "b"}, [("c", "d", "e")]),
    ]:
        with pytest.raises(RowError, match="field 'x"):
            _rows(kind).batches([(good,)] * 5 + [(bad,), (None,)])


@pytest.mark.parametrize("rows", [[{"a": 1, "b": None}, None, {}], [[("a", 1), ("b", None)], None, ()]])
def test_nulls_and_empty_values_stay_where_they_are_among_maps_and_arrays(rows: list[Any]) -> None:
    (batch,) = _rows(pa.map_(pa.string(), pa.int32())).batches([(row,) for row in rows])
    assert batch.column(0).to_pylist() == [[("a", 1), ("b", None)], None, []]
    lists = [[1, None], None, [], (2,)]
    for kind, convert in ((pa.int32(), int), (pa.float64(), float), (pa.string(), str)):
        given = [each if each is None else [v if v is None else convert(v) for v in each] for each in lists]
        (batch,) = _rows(pa.list_(kind)).batches([(row,) for row in given])
        assert batch.column(0).to_pylist() == [None if each is None else list(each) for each in given]
