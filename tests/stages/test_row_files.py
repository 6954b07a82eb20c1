"""from_csv, from_json_lines, to_csv and to_json_lines: rows in and out; every error names the file and the line or the element."""

from __future__ import annotations

import csv
import re
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import BuildError, IOResult, Sink, Source
from streamactors.errors import FramingError


def read(source: Source[Any, Any]) -> list[Any]:
    return source.run_with(Sink.to_list()).result(10)


def text_file(folder: Path, text: str | bytes, name: str = "rows") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# ── CSV in ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_dicts_by_the_header_and_a_source_can_run_twice(tmp_path: Path) -> None:
    source = Source.from_csv(text_file(tmp_path, "city,n\nOslo,1\n\nBergen,2\n"))
    for _ in range(2):
        assert read(source) == [{"city": "Oslo", "n": "1"}, {"city": "Bergen", "n": "2"}]


def test_fields_types_and_lists(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Oslo;1\n")
    assert read(Source.from_csv(path, delimiter=";", header=False)) == [["Oslo", "1"]]
    named = Source.from_csv(path, delimiter=";", header=False, fields=["city", "n"], types={"n": int})
    assert read(named) == [{"city": "Oslo", "n": 1}]
    renamed = Source.from_csv(text_file(tmp_path, "a,b\n1,2\n"), fields=["x", "y"])
    assert read(renamed) == [{"x": "1", "y": "2"}]


def test_quoted_values_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    path = text_file(tmp_path, 'a,b\n"x, ""y""","1\r\n2"\n')
    assert read(Source.from_csv(path)) == [{"a": 'x, "y"', "b": "1\r\n2"}]
    assert read(Source.from_csv(text_file(tmp_path, "a\n'x,y'\n"), quote="'")) == [{"a": "x,y"}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encodings_and_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    text = "città,n\nTromsö,1\n"
    assert read(Source.from_csv(text_file(tmp_path, text.encode(encoding)), encoding)) == [
        {"città": "Tromsö", "n": "1"}
    ]
    assert read(Source.from_csv(text_file(tmp_path, b"\xef\xbb\xbfa\n1\n"))) == [{"a": "1"}]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("a,b\n1,2\n3\n", {}, "line 3: 1 field, expected 2: ['3']"),
        ("a,b\n1,2\n1,2,3\n", {}, "line 3: 3 fields, expected 2: ['1', '2', '3']"),
        ('a,b\n"1\n2",x\n3\n', {}, "line 4: 1 field, expected 2"),
        ('a,b\n1,"2\n', {}, "line 2: unexpected end of data: a quote is open and the file ends"),
        ("a,a\n", {}, "line 1: the header names 'a' twice; give other names: fields=[…]"),
        ("", {}, "line 1: the file is empty; its first line must name the fields, or give header=False"),
        (
            "a\n1\nx\n",
            {"types": {"a": int}},
            "line 3: field 'a': ValueError: invalid literal for int() with base 10: 'x'",
        ),
        ("a\n1\n", {"types": {"b": int}}, "line 1: types names the field 'b', the header has 'a'"),
        ("a,b\n", {"fields": ["x"]}, "line 1: the header has 2 fields, fields= names 1"),
        ("1,2\n3\n", {"header": False}, "line 2: 1 field, expected 2"),
        (
            b"a\n1\n\xff\n",
            {},
            "line 3: the bytes are not utf-8 text (invalid start byte); what is the file's encoding?",
        ),
        ("a\n" + "x" * 200_000, {}, "field larger than field limit (131072): is a quote missing?"),
    ],
)
def test_a_bad_row_names_the_file_and_the_line(tmp_path: Path, text: Any, arguments: dict[str, Any], said: str) -> None:
    path = text_file(tmp_path, text)
    with pytest.raises(FramingError, match=re.escape(said)) as raised:
        read(Source.from_csv(path, **arguments))
    assert str(raised.value).startswith(f"{path}, line ")


def test_the_rows_before_a_bad_one_come_first(tmp_path: Path) -> None:
    seen: list[Any] = []
    path = text_file(tmp_path, "a\n1\n2\n3,4\n")
    with pytest.raises(FramingError):
        Source.from_csv(path).run_with(Sink.foreach(seen.append)).result(10)
    assert seen == [{"a": "1"}, {"a": "2"}]


def test_a_line_far_behind_in_a_file_of_any_encoding_is_counted(tmp_path: Path) -> None:
    lines = [f"row {n} ö" for n in range(20_000)]
    data = "\n".join(lines).encode("utf-16") + b"\n\x00\x00\xdc"  # a half of a pair alone
    path = text_file(tmp_path, data)
    with pytest.raises(FramingError, match="line 20001: the bytes are not utf-16 text"):
        read(Source.from_csv(path, "utf-16", header=False))
    with pytest.raises(FramingError, match=r"rows, line 2: the bytes are not utf-8 text"):
        read(Source.from_lines(text_file(tmp_path, b"one\n\xfe\n")))


@pytest.mark.parametrize("source", [Source.from_csv, Source.from_json_lines])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, source: Any) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        read(source(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": 5}, "from_csv expects a path, got int 5"),
        ({"encoding": "utf-9"}, "from_csv: unknown encoding"),
        ({"delimiter": ";;"}, "from_csv: delimiter must be one character"),
        ({"quote": ""}, "from_csv: quote must be one character"),
        ({"quote": ","}, "delimiter and quote must differ"),
        ({"fields": "ab"}, "fields must be a list of names"),
        ({"fields": ["a", "a"]}, "fields names 'a' twice"),
        ({"types": {"a": 1}}, "types must map names of fields to functions"),
        ({"types": {"a": int}, "header": False}, "types needs names of fields"),
        ({"types": {"a": int}, "fields": ["b"]}, "types names the field 'a', which fields does not have"),
    ],
)
def test_arguments_are_checked_where_they_are_written(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError, match=re.escape(said)):
        Source.from_csv(**{"path": "x", **arguments})


# ── JSON lines in ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_lines_are_values_and_bad_ones_are_named(tmp_path: Path) -> None:
    path = text_file(tmp_path, '{"n": 1}\n\n[2]\n"drei"\nnull')
    assert read(Source.from_json_lines(path)) == [{"n": 1}, [2], "drei", None]
    bad = text_file(tmp_path, '{"n": 1}\n{"n": }\n')
    with pytest.raises(FramingError, match=r"rows, line 2: not JSON: Expecting value, at column 7: '\{\"n\": \}'"):
        read(Source.from_json_lines(bad))
    deep = text_file(tmp_path, "[" * 100_000)
    with pytest.raises(FramingError, match=r"line 1: (nested too deeply|not JSON)"):
        read(Source.from_json_lines(deep))


# ── progress ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "text"),
    [(Source.from_csv, "n\n0\n1\n2\n3\n"), (Source.from_json_lines, '{"n":"0"}\n{"n":"1"}\n{"n":"2"}\n{"n":"3"}\n')],
)
def test_rows_are_replayed_by_their_number(tmp_path: Path, make: Any, text: str) -> None:
    done: list[int] = []
    source = make(text_file(tmp_path, text)).with_replay(2, on_done=done.append)
    assert read(source) == [{"n": "2"}, {"n": "3"}]
    assert done[-1] == 4


# ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

Point = namedtuple("Point", "x y")


@dataclass
class City:
    name: str
    n: int


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        ([{"a": 1, "b": None}, {"b": "x,y", "a": 'say "hi"'}], 'a,b\n1,\n"say ""hi""","x,y"\n'),
        ([Point(1, 2.5)], "x,y\n1,2.5\n"),
        ([City("Oslo", 1)], "name,n\nOslo,1\n"),
        ([[1, 2], (3, "4\n5")], '1,2\n3,"4\n5"\n'),
        ([], ""),
    ],
)
def test_rows_of_every_kind_are_written_and_a_second_run_begins_anew(
    tmp_path: Path, elements: list[Any], text: str
) -> None:
    path = tmp_path / "out"
    for _ in range(2):
        result = Source.from_iterable(elements).run_with(Sink.to_csv(path)).result(10)
        assert path.read_text() == text
        assert result == IOResult(len(text), str(path))


def test_given_fields_make_the_header_even_of_an_empty_stream_and_set_the_order(tmp_path: Path) -> None:
    path = tmp_path / "out"
    Source.empty().run_with(Sink.to_csv(path, ["b", "a"])).result(10)
    assert path.read_text() == "b,a\n"
    Source.single({"a": 1, "b": 2}).run_with(Sink.to_csv(path, ["b", "a"], delimiter=";")).result(10)
    assert path.read_text() == "b;a\n2;1\n"
    Source.single({"a": 1, "b": 2}).run_with(Sink.to_csv(path, header=False)).result(10)
    assert path.read_text() == "1,2\n"


def test_append_writes_one_header_and_one_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for n in range(3):
        sink = Sink.to_csv(path, encoding="utf-16", append=True)
        Source.from_iterable([{"n": n}, {"n": -n}]).max_chunk(1).run_with(sink).result(10)
    assert path.read_bytes().decode("utf-16") == "n\n0\n0\n1\n-1\n2\n-2\n"
    assert read(Source.from_csv(path, "utf-16", types={"n": int}))[-1] == {"n": -2}


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ([{"a": 1}, {"b": 1}], "element 2: field 'a' is missing: {'b': 1}"),
        (
            [{"a": 1}, {"a": 1, "b": 2}],
            "element 2: field 'b' is not among the file's ('a'); give all of them: fields=[…]",
        ),
        ([[1, 2], [3]], "element 2: 1 values, expected 2: [3]"),
        ([{"a": 1}, [1, 2]], "element 2: 2 values, expected 1"),
        ([[1], {"a": 1}], "element 2: 1 values, expected 1: {'a': 1}"),
        ([{"a": 1}, 5], "element 2: to_csv expects dicts, dataclasses, named tuples or sequences of values, got int 5"),
        (
            [{"a": 1}, {"a": [1]}],
            "element 2: field 'a' is a list, which cannot be written as CSV: [1]; convert it to a string",
        ),
        ([{"a": 1}, {"a": b"x"}], "element 2: field 'a' is a bytes, which cannot be written as CSV"),
    ],
)
def test_an_element_that_is_no_such_row_is_named_and_those_before_it_are_written(
    tmp_path: Path, elements: list[Any], said: str
) -> None:
    path = tmp_path / "out"
    with pytest.raises((TypeError, ValueError), match=re.escape(said)) as raised:
        Source.from_iterable(elements).run_with(Sink.to_csv(path)).result(10)
    assert str(raised.value).startswith(f"{path}, element 2")
    assert path.with_name("out.partial").read_text() in ("a\n1\n", "1,2\n", "1\n")


def test_json_lines_go_out_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "out"
    elements = [{"città": "Tromsö"}, [1, 2.5, None], "x\ny", City("Oslo", 1), Point(1, 2), 7]
    for _ in range(2):
        Source.from_iterable(elements).run_with(Sink.to_json_lines(path)).result(10)
    Source.single(8).run_with(Sink.to_json_lines(path, append=True, sync=True)).result(10)
    back = read(Source.from_json_lines(path))
    assert back == [*elements[:3], {"name": "Oslo", "n": 1}, {"x": 1, "y": 2}, 7, 8]


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ({"a": object}, "a type cannot be written as JSON"),
        ({1, 2}, "a set cannot be written as JSON: {1, 2}; convert it to a string or a number"),
        ({"a": float("nan")}, "Out of range float values are not JSON compliant"),
    ],
)
def test_an_element_without_a_form_in_json_is_named(tmp_path: Path, element: Any, said: str) -> None:
    path = tmp_path / "out"
    with pytest.raises((TypeError, ValueError), match=re.escape(said)) as raised:
        Source.from_iterable([1, element]).run_with(Sink.to_json_lines(path)).result(10)
    assert str(raised.value).startswith(f"{path}, element 2: ")
    assert path.with_name("out.partial").read_text() == "1\n"


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=2, max_size=2),
        min_size=1,
    ),
    chunk=st.integers(1, 5),
)
def test_any_texts_in_any_chunks_come_back_as_they_were(
    tmp_path_factory: Any, rows: list[list[str]], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "rows"
    Source.from_iterable(rows).max_chunk(chunk).run_with(Sink.to_csv(path, ["a", "b"])).result(10)
    assert read(Source.from_csv(path)) == [{"a": a, "b": b} for a, b in rows]
    with open(path, newline="") as file:
        assert list(csv.reader(file))[1:] == rows
