"""server.properties is read by the rules of java.util.Properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.config.properties import MAX_BYTES, parse_properties, read_properties
from streamactors.broker.config.setting import InvalidSetting


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb = 2\nc: 3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n ! b=2\n\n", {}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x,\\\n   y,\\\n   z\nb=1", {"a": "x,y,z", "b": "1"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\t!", {"a": "é\t!"}),
        ("a=b=c # no comment here", {"a": "b=c # no comment here"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("listeners=PLAINTEXT://:9092\r\nnode.id=1\r\n", {"listeners": "PLAINTEXT://:9092", "node.id": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a\x0b=1\x85\u2028\nb\xa0=2", {"a\x0b": "1\x85\u2028", "b\xa0": "2"}),  # no line ends, no white space
        ("\\\n# a\nb\f=\f1 ", {"b": "1 "}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_an_invalid_escape_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=C:\\users\\kafka\n")
    with pytest.raises(InvalidSetting, match=r"server.properties: \\u: this escape has four hexadecimal digits"):
        read_properties(file)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xef\xbb\xbfnode.id=1\r\n")
    assert read_properties(file) == {"node.id": "1"}


def test_an_invalid_settings_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    huge = tmp_path / "huge"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    for path, complaint in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
        (binary, "not text"),
        (huge, "larger than"),
    ):
        with pytest.raises(InvalidSetting, match=complaint):
            read_properties(path)
