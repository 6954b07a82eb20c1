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
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_a_file_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
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
