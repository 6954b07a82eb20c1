"""The types of stored records: what they write, what comes back, and damage that is refused where it stands."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from streamactors.broker.protocol.record_schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UINT16,
    UUID,
    CorruptRecord,
    Field,
    Form,
    Versioned,
    array,
    lowest_version,
    read_unsigned,
    structure,
    too_long,
)

PLAIN, FLEXIBLE = Form(0, False), Form(9, True)
ID = uuid.UUID(int=1)


def written(kind: Any, value: Any, form: Form = PLAIN) -> bytes:
    out = bytearray()
    kind.write(out, value, form)
    return bytes(out)


@pytest.mark.parametrize(
    ("kind", "value", "plain", "flexible"),
    [
        (INT8, -1, "ff", "ff"),
        (INT16, -2, "fffe", "fffe"),
        (UINT16, 65_535, "ffff", "ffff"),
        (INT32, 258, "00000102", "00000102"),
        (INT64, -1, "ff" * 8, "ff" * 8),
        (FLOAT64, 1.0, "3ff0000000000000", "3ff0000000000000"),
        (BOOLEAN, True, "01", "01"),
        (BOOLEAN, False, "00", "00"),
        (UUID, ID, "00" * 15 + "01", "00" * 15 + "01"),
        (TEXT, "é", "0002c3a9", "03c3a9"),
        (TEXT, "", "0000", "01"),
        (NULLABLE_TEXT, None, "ffff", "00"),
        (BYTES, b"ab", "000000026162", "036162"),
        (array(INT8), (1, 2), "000000020102", "030102"),
        (array(INT8), (), "00000000", "01"),
    ],
)
def test_a_value_has_its_bytes_and_comes_back(kind: Any, value: Any, plain: str, flexible: str) -> None:
    for form, text in ((PLAIN, plain), (FLEXIBLE, flexible)):
        data = bytes.fromhex(text)
        assert written(kind, value, form) == data
        assert kind.read(b"xx" + data + b"y", 2, form) == (value, 2 + len(data))
        for cut in range(len(data)):
            with pytest.raises(CorruptRecord):
                kind.read(data[:cut], 0, form)


def test_an_array_of_null_is_read_as_an_empty_one() -> None:
    assert written(array(INT8), None) == b"\xff" * 4
    assert array(INT8).read(b"\xff" * 4, 0, PLAIN) == ((), 4)


@pytest.mark.parametrize(("count", "rest"), [(3, 2), (1_000_000, 9)])
def test_an_array_that_lies_about_its_length_is_refused_before_it_is_read(count: int, rest: int) -> None:
    data = b"front" + count.to_bytes(4, "big") + bytes(rest)
    with pytest.raises(CorruptRecord, match=f"an array of {count} items in {rest} bytes"):
        array(INT8).read(data, 5, PLAIN)
    assert array(INT8).read(rest.to_bytes(4, "big") + bytes(rest), 0, PLAIN)[0] == (0,) * rest


def test_null_is_refused_where_a_value_must_be() -> None:
    with pytest.raises(CorruptRecord, match="null at byte 2, where a string must be"):
        TEXT.read(b"xx\xff\xff", 2, PLAIN)
    with pytest.raises(CorruptRecord, match="null at byte 0, where bytes must be"):
        BYTES.read(b"\x00", 0, FLEXIBLE)
    with pytest.raises(CorruptRecord, match="the string at byte 0 is not UTF-8"):
        TEXT.read(b"\x00\x01\xff", 0, PLAIN)


@pytest.mark.parametrize(
    ("data", "value"), [("00", 0), ("7f", 127), ("8001", 128), ("ffffffff0f", 2**32 - 1), ("8080808000", 0)]
)
def test_a_varint_has_at_most_five_bytes(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert read_unsigned(b"x" + raw + b"\x01", 1) == (value, 1 + len(raw))
    with pytest.raises(CorruptRecord, match=f"a varint without an end before byte {len(raw) - 1} of {len(raw) - 1}"):
        read_unsigned(raw[:-1], 0)
    with pytest.raises(CorruptRecord, match="a varint without an end before byte 5 of 6"):
        read_unsigned(b"\x80" * 5 + b"\x00", 0)


@dataclass(frozen=True)
class Entry:
    number: Annotated[int, INT8]
    old: Annotated[int, Field(INT8, until=1)] = 0
    new: Annotated[int, Field(INT8, since=2)] = 0
    tagged: Annotated[int, Field(INT16, since=3, tag=0)] = 7
    later: Annotated[int, Field(INT16, since=4, tag=5)] = 8


FORM = Versioned("an entry", structure(Entry), highest=4, flexible_since=3)


def test_a_field_is_stored_in_the_versions_that_have_it() -> None:
    entry = Entry(1, old=2, new=3)
    assert FORM.encode(entry, 1) == bytes.fromhex("0001 01 02")
    assert FORM.encode(entry, 2) == bytes.fromhex("0002 01 03")
    assert FORM.decode(FORM.encode(entry, 1)) == Entry(1, old=2)
    assert FORM.decode(FORM.encode(entry, 2)) == Entry(1, new=3)


def test_a_tagged_field_is_stored_if_it_differs_from_its_default() -> None:
    assert FORM.encode(Entry(1), 3) == bytes.fromhex("0003 01 00 00")
    assert FORM.encode(Entry(1, tagged=9, later=10), 4) == bytes.fromhex("0004 01 00 02 00 02 0009 05 02 000a")
    assert FORM.decode(bytes.fromhex("0004 01 00 02 00 02 0009 05 02 000a")) == Entry(1, tagged=9, later=10)
    assert FORM.decode(bytes.fromhex("0004 01 00 02 09 03 616263 05 02 000a")) == Entry(1, later=10), "unknown tag"


def test_the_lowest_version_has_all_tagged_fields_that_are_set() -> None:
    assert [lowest_version(Entry(1), at_least) for at_least in (0, 2)] == [0, 2]
    assert lowest_version(Entry(1, tagged=9), 0) == 3
    assert lowest_version(Entry(1, tagged=9, later=9), 0) == 4
    assert lowest_version(Entry(1, later=9), 9) == 9


@pytest.mark.parametrize("version", [-1, 5])
def test_an_unknown_version_is_named(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + b"\x01"
    with pytest.raises(CorruptRecord, match=f"version {version} of an entry is unknown; versions 0 to 4 can be read"):
        FORM.decode(data)
    with pytest.raises(CorruptRecord, match=f"version {version} of an entry 'g' is unknown"):
        FORM.decode(data, "g")


def test_a_text_of_more_than_32767_bytes_cannot_be_stored() -> None:
    assert not too_long(None)
    assert not too_long("x" * 32_767)
    assert too_long("x" * 32_768)
    assert not too_long("é" * 16_383)
    assert too_long("é" * 16_384)
    assert too_long("🙂" * 8_192)
    assert not too_long("🙂" * 8_191)
