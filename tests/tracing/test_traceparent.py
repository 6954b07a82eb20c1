"""Contexts in record headers: the W3C's form, and what strangers put there."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.tracing.traceparent import MOST_STATE, ContextReader, RemoteContext, parsed, replaced, written

GOOD = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_context_is_read() -> None:
    assert parsed(GOOD, b"a=1,b=2") == RemoteContext(
        0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True, "a=1,b=2"
    )
    assert parsed(GOOD[:-2] + b"00").sampled is False  # type: ignore[union-attr]
    assert parsed(GOOD[:-2] + b"03").sampled is True  # type: ignore[union-attr]  # another flag is set, too


def test_a_later_version_may_say_more() -> None:
    assert parsed(b"01" + GOOD[2:] + b"-what-comes") == parsed(GOOD)
    assert parsed(b"01" + GOOD[2:] + b".what-comes") is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"00",
        GOOD + b"-more",
        GOOD + b"\n",
        b" " + GOOD,
        GOOD.upper(),
        b"ff" + GOOD[2:],
        b"00-" + b"0" * 32 + GOOD[35:],
        GOOD[:36] + b"0" * 16 + b"-01",
        GOOD.replace(b"-", b"_"),
        GOOD[:-1],
        b"\xff" * 55,
        GOOD[:10] + b"\x00" + GOOD[11:],
        b"01" + GOOD[2:] + b"-" + b"x" * 100_000,
        b"<script>alert(1)</script>",
    ],
)
def test_what_is_no_context_is_none(wrong: bytes) -> None:
    assert parsed(wrong) is None


@given(st.binary(max_size=80))
def test_no_bytes_raise(data: bytes) -> None:
    found = parsed(data, data)
    assert found is None or (found.trace_id and found.span_id)


def test_a_state_that_is_too_long_or_not_printable_is_dropped_and_the_context_kept() -> None:
    for state in (b"a=" + b"x" * MOST_STATE, b"a=\n", b"a=\xff"):
        found = parsed(GOOD, state)
        assert found is not None
        assert found.state == ""


def test_what_is_written_is_read() -> None:
    (_, parent), (_, state) = written(5, 7, "a=1")
    assert parsed(parent, state) == RemoteContext(5, 7, True, "a=1")


def test_a_new_context_takes_the_place_of_the_old_one() -> None:
    old = [("traceparent", GOOD), ("id", b"1"), ("tracestate", b"a=1"), ("traceparent", b"second")]
    assert replaced(old, written(1, 2, "")) == [("id", b"1"), *written(1, 2, "")]


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", GOOD), ("traceparent", GOOD)],
        [("traceparent", None)],
        [("traceparent", b"x\nERROR forged line")],
    ],
)
def test_a_wrong_header_is_ignored_and_logged_once_for_a_topic(
    headers: list[tuple[str, bytes | None]], caplog: pytest.LogCaptureFixture
) -> None:
    reader = ContextReader()
    with caplog.at_level(logging.WARNING, "streamactors.tracing"):
        for _ in range(100):
            assert reader.read("orders", headers) is None
        assert reader.read("orders", [("traceparent", GOOD)]) is not None
    (record,) = caplog.records
    assert record.message.startswith("topic orders: a record has a header 'traceparent' that is no trace context")
    assert "\n" not in record.message


def test_other_headers_are_no_context() -> None:
    assert ContextReader().read("orders", [("id", b"1"), ("Traceparent", GOOD)]) is None
