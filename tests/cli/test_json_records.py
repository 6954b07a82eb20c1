"""`produce --json`: lines become records, and a line that is none is named with the way out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.cli.records.json_records import BadLine, JsonRecord, record_of
from streamactors.cli.records.printing import as_object
from streamactors.testing import consumer_record

data = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(data, data, st.integers(0, 1 << 62), st.lists(st.tuples(st.text(min_size=1, max_size=5), data), max_size=3))
def test_every_record_survives_being_printed(
    value: bytes | None, key: bytes | None, timestamp: int, headers: list[tuple[str, bytes | None]]
) -> None:
    record = consumer_record(value, topic="t", partition=3, offset=9, key=key, timestamp=timestamp, headers=headers)
    line = json.dumps(as_object(record, record.value), ensure_ascii=False).encode()
    assert record_of(line) == JsonRecord(value, key, 3, timestamp, headers)


def test_a_line_by_hand_may_be_short() -> None:
    assert record_of(b'{"value": "x"}') == JsonRecord(b"x", None, None, None, [])
    assert record_of(b'{"value": null, "headers": {"a": "b"}}') == JsonRecord(None, None, None, None, [("a", b"b")])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"hello", "is not JSON .*; without --json each line is a value"),
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[1]", r"is not an object but \[1\]"),
        (b'{"key": "a"}', 'has no value; a tombstone has "value": null'),
        (b'{"valeu": "a"}', "has a field 'valeu' that records do not have; the fields are topic, partition"),
        (b'{"value": {"a": 1}}', "has value .*, which is no string; write its JSON as a string"),
        (b'{"value": "a", "value_base64": "YQ=="}', "has both value and value_base64"),
        (b'{"value_base64": "?"}', 'has value_base64 "\\?", which is not base64'),
        (b'{"value_base64": 7}', "has value_base64 7, which is not base64"),
        (b'{"value": "a", "timestamp_ms": -1}', "has timestamp_ms -1, which is no whole number"),
        (b'{"value": "a", "partition": true}', "has partition true"),
        (b'{"value": "a", "headers": "x"}', 'has headers "x"; their form is'),
        (b'{"value": "a", "headers": [{"value": "x"}]}', "their form is"),
    ],
)
def test_a_bad_line_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(BadLine, match=complaint):
        record_of(line)
