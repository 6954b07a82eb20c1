"""Rows over bytes: CSV, lines of JSON, server-sent events, tables. Where elements end never changes a result."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import (
    BuildError,
    Flow,
    FramingError,
    ServerSentEvent,
    Sink,
    Source,
)
from streamactors.stages.files.rows import ParseCsv, ParseJsonLines
from streamactors.stages.framing.server_sent_events import ParseServerSentEvents
from tests.stages.harness import Bench
from tests.stages.test_framing import CUTS, pieces, run

# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

CELLS = st.text(alphabet='ab",\né ', max_size=5)
TABLES = st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=8))


@settings(max_examples=80, deadline=None)
@given(table=TABLES, sizes=CUTS, end=st.sampled_from(["\n", "\r\n"]))
def test_csv_rows_are_those_of_the_csv_module_however_the_bytes_are_cut(table, sizes, end):
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(table)
    data = text.getvalue().encode()
    assert run(Source.from_iterable(pieces(data, sizes)).parse_csv(header=False)) == table


@settings(max_examples=60, deadline=None)
@given(table=TABLES, sizes=CUTS)
def test_what_format_csv_writes_parse_csv_reads(table, sizes):
    names = [f"f{i}" for i in range(len(table[0]))] if table else []
    rows = [dict(zip(names, row, strict=True)) for row in table]
    data = b"".join(run(Source.from_iterable(rows).format_csv()))
    assert run(Source.from_iterable(pieces(data, sizes)).parse_csv()) == rows


def test_fields_have_names_and_types():
    data = [b"\xef\xbb\xbfcity,price\nOslo,", b'3\n\n"Ber', b'gen, ""N""",4']
    assert run(Source.from_iterable(data).parse_csv(types={"price": int})) == [
        {"city": "Oslo", "price": 3},
        {"city": 'Bergen, "N"', "price": 4},
    ]
    assert run(Source.single(b"1;2\n").parse_csv(delimiter=";", header=False, fields=["a", "b"])) == [
        {"a": "1", "b": "2"}
    ]


@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize(
    ("data", "before", "message"),
    [
        (b"a,b\n1,2\n3\n", 1, r"parse_csv, line 3: 1 fields, expected 2: \['3'\]"),
        (b"a,b\n1,x\n", 0, "parse_csv, line 2: field 'b': ValueError: invalid literal"),
        (b'a,b\n1,2\n"3,4\n', 1, "parse_csv, line 3: a quote is open and the stream ends"),
        (b'a,b\n1,2\n"3"x,4\n', 1, "parse_csv, line 3: ',' expected after '\"'"),
        (b"a,a\n", 0, "line 1: the header names 'a' twice"),
        (b"a,c\n", 0, "line 1: types names the field 'b', the header has 'a', 'c'"),
        (b"a,b\n1,2\n" + b"x" * 50, 1, "parse_csv, line 3: a row is longer than max_length=40 characters"),
    ],
)
def test_a_row_that_is_wrong_is_named_by_its_line_and_those_before_it_are_emitted(data, before, message, size):
    seen: list[Any] = []
    source = Source.from_iterable(pieces(data, [size] * 100)).parse_csv(types={"b": int}, max_length=40)
    with pytest.raises(FramingError, match=message):
        source.run_with(Sink.foreach(seen.append)).result(10)
    assert len(seen) == before


def test_a_field_that_the_csv_module_finds_too_long_says_the_limit_and_the_way_out():
    # A field of a row within max_length failed with "field larger than field limit (131072)" alone, which max_length does not change.
    rows = Source.single(b"a\n" + b"x" * 200_000).parse_csv()
    limit = csv.field_size_limit()
    with pytest.raises(
        FramingError, match=rf"parse_csv, line 2: field larger than field limit \({limit}\).*csv\.field_size_limit\(n\)"
    ):
        rows.run_with(Sink.to_list()).result(10)
    csv.field_size_limit(200_000)
    try:
        assert rows.run_with(Sink.to_list()).result(10) == [{"a": "x" * 200_000}]
    finally:
        csv.field_size_limit(limit)


def test_a_mark_waits_for_the_row_that_ends_the_bytes_before_it(timeless):
    with Bench(timeless, ParseCsv(header=False)) as bench:
        bench.request(10)
        bench.send(b'a\n"b\n')
        bench.mark(1)
        bench.send(b'c"\nd\n')
        assert bench.seen == [("element", ["a"]), ("element", ["b\nc"]), ("mark", 1), ("element", ["d"])]


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Place:
    x: int
    y: int


@pytest.mark.parametrize("rows", [[{"x": 1, "y": 2}], [Point(1, 2)], [Place(1, 2)]])
def test_rows_of_many_kinds_are_written(rows):
    assert b"".join(run(Source.from_iterable(rows).format_csv())) == b"x,y\n1,2\n"
    assert run(Source.from_iterable(rows).format_json_lines()) == [b'{"x": 1, "y": 2}\n']


def test_a_row_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="field 'y' is missing"):
        run(Source.from_iterable([{"x": 1, "y": 2}, {"x": 1}]).format_csv())
    with pytest.raises(
        TypeError, match="format_csv expects dicts, dataclasses, named tuples or sequences of values, got int 3"
    ):
        run(Source.single(3).format_csv())
    for make, message in (
        (lambda: Flow.identity().parse_csv(delimiter=";;"), "delimiter must be one character"),
        (lambda: Flow.identity().parse_csv(header=False, types={"a": int}), "types needs names of fields"),
    ):
        with pytest.raises(BuildError, match=message):
            make()


# ── lines of JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(values=st.lists(VALUES, max_size=6), sizes=CUTS)
def test_json_lines_are_those_of_the_json_module_however_the_bytes_are_cut(values, sizes):
    data = "".join(json.dumps(value, ensure_ascii=False) + "\n\n" for value in values).encode(errors="surrogatepass")
    assert run(Source.from_iterable(pieces(data, sizes)).parse_json_lines()) == [
        json.loads(json.dumps(value)) for value in values
    ]


def test_what_format_json_lines_writes_parse_json_lines_reads():
    values = [{"a": [1, 2.5, None, "é\n"]}, [], "x", 2**80]
    assert run(Source.from_iterable(values).format_json_lines().parse_json_lines()) == values
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        run(Source.single(math.nan).format_json_lines())


def test_values_that_only_the_standard_library_knows_are_the_same_with_msgspec():
    found = run(Source.single(b'NaN\n1e400\n12345678901234567890123\n"\\ud800"\n').parse_json_lines())
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, 12345678901234567890123, "\ud800"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n\n{bad\n", "parse_json_lines, line 3: not JSON: Expecting property name"),
        (b'1\n"\xff"\n', "parse_json_lines, line 2: no UTF-8 text"),
        (b"1\n" + b"[" * 100_000 + b"\n", "parse_json_lines, line 2: (nested too deeply|not JSON)"),
        (b"1\n" + b"2" * 300_000 + b"\n", "parse_json_lines, line 2: longer than max_length=200000 bytes"),
    ],
)
def test_a_line_that_is_no_json_is_named_and_those_before_it_are_emitted(data, message):
    seen: list[Any] = []
    with pytest.raises(FramingError, match=message):
        Source.single(data).parse_json_lines(200_000).run_with(Sink.foreach(seen.append)).result(10)
    assert seen == [1]


def test_a_mark_waits_for_the_line_that_ends_the_bytes_before_it(timeless):
    with Bench(timeless, ParseJsonLines()) as bench:
        bench.request(10)
        bench.send(b"1\n2")
        bench.mark(1)
        bench.send(b"3\n")
        assert bench.seen == [("element", 1), ("element", 23), ("mark", 1)]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ROWS = [{"city": f"c{n}", "price": n} for n in range(2_500)]


@pytest.mark.parametrize(
    ("operator", "kind"),
    [("to_arrow", pyarrow.Table), ("to_pandas", pandas.DataFrame), ("to_polars", polars.DataFrame)],
)
def test_rows_become_tables_and_tables_rows(operator, kind):
    tables = run(getattr(Source.from_iterable(ROWS), operator)(1_000))
    assert [type(table) for table in tables] == [kind] * 3
    assert [len(table) for table in tables] == [1_000, 1_000, 500]
    back = run(Source.from_iterable(tables).rows())
    assert back == ROWS
    assert type(back[0]["price"]) is int


def test_record_batches_have_rows_and_a_schema_decides_types():
    batch = pyarrow.RecordBatch.from_pylist(ROWS[:3])
    assert run(Source.single(batch).rows()) == ROWS[:3]
    schema = pyarrow.schema([("city", pyarrow.string()), ("price", pyarrow.float64())])
    assert run(Source.from_iterable(ROWS[:2]).to_arrow(schema=schema))[0].schema == schema
    assert (
        run(Source.from_iterable(ROWS[:2]).to_polars(schema={"city": polars.String, "price": polars.Int8}))[0][
            "price"
        ].dtype
        == polars.Int8
    )
    assert run(Source.from_iterable(ROWS[:2]).to_pandas(schema={"price": "float32"}))[0]["price"].dtype == "float32"


def test_what_is_no_table_and_what_has_no_names_is_named():
    with pytest.raises(TypeError, match=r"rows expects tables of pyarrow, pandas or polars, got builtins\.int 3"):
        run(Source.single(3).rows())
    with pytest.raises(TypeError, match=r"to_arrow expects rows with names.*got tuple \(1, 2\)") as raised:
        run(Source.single((1, 2)).to_arrow())
    assert any("in stage to_arrow" in note for note in raised.value.__notes__)
    with pytest.raises(BuildError, match="to_polars: rows must be at least 1"):
        Flow.identity().to_polars(0)


# ── server-sent events ────────────────────────────────────────────────────────────────────────────────────────────────

LINES = st.text(alphabet="aé: ", max_size=5)
EVENTS = st.builds(
    ServerSentEvent,
    st.lists(LINES, min_size=1, max_size=3).map("\n".join),
    st.sampled_from(["message", "price"]),
    st.sampled_from(["", "7", "x y"]),
    st.sampled_from([None, 0, 1_500]),
)


@settings(max_examples=80, deadline=None)
@given(events=st.lists(EVENTS, max_size=5), sizes=CUTS, end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_read_as_they_were_written_however_the_bytes_are_cut(events, sizes, end):
    data = b"".join(run(Source.from_iterable(events).format_server_sent_events())).replace(b"\n", end)
    found = run(Source.from_iterable(pieces(data, sizes)).parse_server_sent_events())
    last = ""
    for sent, seen in zip(events, found, strict=True):
        last = sent.id or last  # an id stays until the server sets another
        assert seen == ServerSentEvent(sent.data, sent.event, last, sent.retry_ms)


def test_the_examples_of_the_standard():
    text = b"\xef\xbb\xbf: comment\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\ndata\n\ndata\ndata\n\nevent: x\n\ndata: unfinished\n"
    found = run(Source.from_iterable(pieces(text, [1] * 200)).parse_server_sent_events())
    assert [(e.data, e.id) for e in found] == [("first", "1"), ("second", ""), (" third", ""), ("", ""), ("\n", "")]


def test_an_event_beyond_the_limit_and_one_with_a_line_end_in_its_id_are_refused():
    for data in (b"data: " + b"x" * 50, b"data: xxxx\n" * 10):
        with pytest.raises(FramingError, match="an event is longer than max_length=30"):
            run(Source.single(data).parse_server_sent_events(30))
    with pytest.raises(ValueError, match="the id of an event holds a line end"):
        run(Source.single(ServerSentEvent("x", id="1\ndata: y")).format_server_sent_events())
    with pytest.raises(TypeError, match="format_server_sent_events expects ServerSentEvent or a string, got int 3"):
        run(Source.single(3).format_server_sent_events())


@pytest.mark.parametrize(
    "text", [b"data: abc\n\n", b"event: e\ndata: \xc3\xa4\n\n", b"data\n\n", b"data: a\r\ndata: b\r\n\r\n"]
)
def test_a_mark_within_an_event_waits_for_the_event(timeless, text):
    for cut in range(len(text) + 1):
        with Bench(timeless, ParseServerSentEvents()) as bench:
            bench.request(5)
            if cut:
                bench.send(text[:cut])
            bench.mark(1)
            if cut < len(text):
                bench.send(text[cut:])
            bench.complete()
            kinds = [kind for kind, _ in bench.seen]
            assert kinds == (["mark", "element"] if cut == 0 else ["element", "mark"]), text[:cut]


def test_the_limit_of_server_sent_events_is_that_of_one_event() -> None:
    events = b"data: 123456\n\n" * 3 + b"data: 1234\ndata: 5678\n\n"
    found = run(Source.single(events).parse_server_sent_events(10))
    assert [each.data for each in found] == ["123456"] * 3 + ["1234\n5678"]
    with pytest.raises(FramingError, match="an event is longer than max_length=10"):
        run(Source.single(b"data: 12345\ndata: 67890\n\n").parse_server_sent_events(10))
