"""Files that are compressed, in another encoding, elsewhere or not there: they are read, or the error names the way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from streamactors import BuildError, FramingError, Sink, Source

SOURCES: Any = pytest.mark.parametrize("source", [Source.from_csv, Source.from_json_lines, Source.from_lines])


def read(source: Any) -> Any:
    return source.run_with(Sink.to_list()).result(10)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_is_decompressed_whatever_its_name(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(compress("\ufeffa\n1\nö\n".encode()))
    assert read(Source.from_csv(path)) == [{"a": "1"}, {"a": "ö"}]
    assert read(Source.from_lines(path))[1:] == ["1", "ö"]
    assert read(Source.from_csv(path).with_replay(1)) == [{"a": "ö"}]
    path.write_bytes(compress(b"a\n1\n\xfe\n"))
    with pytest.raises(FramingError, match="line 3: the bytes are not utf-8 text"):
        read(Source.from_csv(path))
    path.write_bytes(compress(b"[1, 2]\n")[:-6])
    with pytest.raises(FramingError, match=r"rows\.csv: the compressed bytes are damaged, or the file was cut"):
        read(Source.from_json_lines(path))


@SOURCES
def test_a_file_of_zstd_is_refused_with_the_way(tmp_path: Path, source: Any) -> None:
    path = tmp_path / "rows.csv.zst"
    written = Source.single(b"a\n1\n").zstd().run_with(Sink.to_file(path))
    written.result(10)
    with pytest.raises(FramingError, match=r"compressed with zstd; .*Source\.from_file\(.*\)\.unzstd\(\)"):
        read(source(path))
    assert read(Source.from_file(path).unzstd().parse_csv()) == [{"a": "1"}]


@pytest.mark.parametrize("make", [Source.from_csv, Source.from_json_lines, Source.from_lines, Source.from_file])
def test_a_url_is_refused_with_the_way(make: Any) -> None:
    with pytest.raises(
        BuildError, match=r"got the URL 's3://b/rows.csv'; .*lambda: fsspec.open\('s3://b/rows.csv'\).open\(\)"
    ):
        make("s3://b/rows.csv")
    with pytest.raises(BuildError, match=r"give the path: '/tmp/rows\.csv'"):
        make("file:///tmp/rows.csv")


@pytest.mark.parametrize("make", [Sink.to_csv, Sink.to_json_lines, Sink.to_lines, Sink.to_file])
def test_a_sink_refuses_a_url_with_the_way(make: Any) -> None:
    with pytest.raises(BuildError, match=r"got the URL 's3://b/rows'; Sink\.to_objects"):
        make("s3://b/rows")


def test_what_the_error_of_a_url_says_works(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")

    (tmp_path / "rows.csv").write_text("a\n1\n")
    url = f"local://{tmp_path}/rows.csv"
    assert read(Source.from_file_object(lambda: fsspec.open(url).open()).parse_csv()) == [{"a": "1"}]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_header_of_one_field_with_another_delimiter_is_warned_of(
    tmp_path: Path, delimiter: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"a{delimiter}b\n1{delimiter}2\n")
    said = f"one field, with {delimiter!r} in it; if that divides the fields: delimiter={delimiter!r}"
    read(Source.from_csv(path))
    assert caplog.text.count(said) == 1
    caplog.clear()
    with pytest.raises(FramingError) as failed:
        read(Source.from_csv(path, types={"b": int}))
    assert said in str(failed.value)
    assert read(Source.from_csv(path, delimiter=delimiter)) == [{"a": "1", "b": "2"}]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("text", "way"),
    [("a\n1\n".encode("utf-16"), 'encoding="utf-16"'), ("a\nö\n".encode("latin-1"), 'encoding="cp1252"')],
)
def test_another_encoding_is_guessed(tmp_path: Path, text: bytes, way: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    with pytest.raises(FramingError, match=way):
        read(Source.from_csv(path))


@pytest.mark.parametrize("make", [Source.from_csv, Source.from_json_lines, Source.from_lines, Source.from_file])
def test_a_file_that_is_not_there_or_a_folder_is_answered_with_what_may_be_meant(tmp_path: Path, make: Any) -> None:
    (tmp_path / "flights.csv").write_text("a\n")
    for name, note in (
        ("flihgts.csv", f"did you mean {tmp_path / 'flights.csv'}?"),
        ("zzz", f"{tmp_path} has no file of such a name"),
        ("no/rows.csv", f"there is no folder {tmp_path / 'no'}; the program runs in {os.getcwd()}"),
        (".", f"{tmp_path} is a folder"),
    ):
        with pytest.raises(OSError, match=r"Errno") as failed:
            read(make(tmp_path / name))
        assert any(each.startswith(note) for each in failed.value.__notes__), failed.value.__notes__


@pytest.mark.parametrize("make", [Source.from_csv, Source.from_json_lines, Source.from_lines, Source.from_file])
def test_the_advice_for_a_folder_reads_its_files_in_the_same_way(tmp_path: Path, make: Any) -> None:
    with pytest.raises(OSError, match="directory") as failed:
        read(make(tmp_path))
    assert failed.value.__notes__[0].endswith(f".flat_map_concat(Source.{make.__name__})")


@pytest.mark.parametrize("make", [Sink.to_csv, Sink.to_json_lines, Sink.to_lines, Sink.to_file])
def test_a_folder_that_is_to_be_written_is_answered_with_a_path_in_it(tmp_path: Path, make: Any) -> None:
    with pytest.raises(OSError, match="directory") as failed:
        Source.single(b"x").run_with(make(tmp_path)).result(20)
    assert failed.value.__notes__[0] == f"{tmp_path} is a folder; give the path of a file, such as '{tmp_path}/part-0'"
