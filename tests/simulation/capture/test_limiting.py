"""What is kept of a span that is larger than its limits, and what redaction and comparison do with records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.capture.capsule import CapturedRecord
from streamactors.simulation.capture.comparing import Change, differences
from streamactors.simulation.capture.elements import Window
from streamactors.simulation.capture.errors import RedactionFailed
from streamactors.simulation.capture.limiting import Limits, NewestByKey, Spans, weight
from streamactors.simulation.capture.redacting import redacted
from streamactors.simulation.capture.replaying import Result
from tests.simulation.capture.capsules import record

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)


def test_the_oldest_records_of_all_partitions_are_left_out() -> None:
    spans = Spans(Limits(records=3))
    for offset in range(4):
        spans.add(ONE, record(offset, b"", at_ms=offset * 10))
        spans.add(TWO, record(offset, b"", at_ms=offset * 10 + 25, partition=1))
    assert [each.timestamp_ms % 1_000 for key in (ONE, TWO) for each in spans.of(key)] == [35, 45, 55]
    assert spans.cut == {ONE: 4, TWO: 1}


def test_bytes_are_limited_too_and_one_record_that_is_too_large_leaves_nothing() -> None:
    small = record(0, b"1")
    spans = Spans(Limits(bytes=weight(small)))
    spans.add(ONE, small)
    assert spans.of(ONE) == (small,)
    spans.add(ONE, record(1, b"x" * 100))
    assert spans.of(ONE) == ()
    assert spans.cut == {ONE: 2}


def test_state_is_the_newest_entry_of_each_key_before_the_span_and_of_all() -> None:
    kept = NewestByKey(begin=3, after=True)
    for offset, (key, value) in enumerate(
        [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"3"), (b"c", b"1"), (b"a", None)]
    ):
        kept.add(record(offset, value, key=key))
    assert [(each.offset, each.key) for each in kept.records] == [(1, b"b"), (2, b"a"), (4, b"c"), (5, b"a")]


def test_growth_is_told_as_it_is() -> None:
    kept, size = NewestByKey(begin=10, after=False), 0
    for offset, value in enumerate([b"long" * 5, b"s", None, b"middle"]):
        size += kept.add(record(offset, value, key=b"k"))
    assert size == sum(map(weight, kept.records))
    assert kept.add(record(11, b"x", key=b"k")) == 0


def test_a_function_may_change_key_value_and_headers() -> None:
    (found,) = redacted(
        [record(7, b"secret", key=b"ann")], lambda r: r._replace(key=b"k", value=None, headers=(("h", b"x"),)), "m:f"
    )
    assert (found.place, found.key, found.value, found.headers) == ("in-0@7", b"k", None, (("h", b"x"),))


def _raises(_: CapturedRecord) -> CapturedRecord:
    raise ValueError("secret")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_raises, "m:f raised ValueError at in-0@7; nothing was written"),
        (lambda r: r.value, "returned a bytes for in-0@7"),
        (lambda r: None, "returned a NoneType"),
        (lambda r: r._replace(offset=8), "has moved in-0@7"),
        (lambda r: r._replace(value="secret"), "a value of type str"),
        (lambda r: r._replace(headers=(("h", "secret"),)), "a header h of type str"),
    ],
)
def test_a_function_that_cannot_be_used_is_named_without_the_value(function: Callable[..., Any], told: str) -> None:
    with pytest.raises(RedactionFailed) as raised:
        redacted([record(7, b"secret")], function, "m:f")
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_differences_are_by_place_key_and_window_and_in_the_order_of_values() -> None:
    window, later = Window("'a'", 0, 60), Window("'a'", 60, 120)
    before = [Result("out", "'a'", None, "1"), Result("out", "'a'", None, "2"), Result("w", "'a'", window, "1"), Result("out", "'c'", None, "1")]  # fmt: skip
    after = [Result("out", "'c'", None, "1"), Result("out", "'a'", None, "2"), Result("out", "'a'", None, "1"), Result("w", "'a'", later, "1")]  # fmt: skip
    assert [(each.change, each.key, each.window, each.before, each.after) for each in differences(before, after)] == [
        (Change.CHANGED, "'a'", None, ("1", "2"), ("2", "1")),
        (Change.MISSING, "'a'", window, ("1",), ()),
        (Change.EXTRA, "'a'", later, (), ("1",)),
    ]
    assert differences(before, before) == []
    assert differences([], []) == []
