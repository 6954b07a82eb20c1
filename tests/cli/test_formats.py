"""`consume --format`: kcat's letters."""

from __future__ import annotations

import pytest

from streamactors.cli.records.formats import RecordFormat
from streamactors.testing import consumer_record


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        (r"%k %v\n", b"key value\n"),
        ("%s", b"value"),
        ("%t-%p@%o", b"orders-2@7"),
        ("%K %S %V", b"3 5 5"),
        ("%T", b"1700000000000"),
        ("%h", b"from=shop,empty=NULL"),
        (r"%R%s", b"\x00\x00\x00\x05value"),
        (r"100%% \t\r\e\x41\0\\ä", b"100% \t\r\x1bA\x00\\" + "ä".encode()),
        ("", b""),
    ],
)
def test_a_letter_is_a_field(form: str, printed: bytes) -> None:
    headers = (("from", b"shop"), ("empty", None))
    record = consumer_record(
        b"value", topic="orders", partition=2, offset=7, key=b"key", timestamp=1_700_000_000_000, headers=headers
    )
    assert RecordFormat(form)([(record, record.value)]) == printed


def test_null_is_empty_and_its_length_is_less_than_nothing() -> None:
    record = consumer_record(None, topic="orders", key=None, timestamp=None)
    assert RecordFormat("[%k|%v|%K|%S|%T|%h|%R]")([(record, None)]) == b"[||-1|-1|-1||\xff\xff\xff\xff]"


@pytest.mark.parametrize(
    ("form", "named"),
    [("%z", "'%z' is no field of a format; it has %t topic"), ("5%", "'%' is no field"), (r"\q", "is no escape of")],
)
def test_an_unknown_letter_names_the_choices(form: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        RecordFormat(form)
