"""Bytes of keys and values, and the index that orders what is held."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import CodecError, Record, Serdes, TimeWindows, WindowedRecord
from streamactors.windows.state.calendar_queue import NEVER, CalendarQueue
from streamactors.windows.state.serdes import KeyIdentity, default_bytes, key_bytes
from tests.windows.words import CLOSED, W, pipe_all


def test_default_bytes_are_those_of_kafkas_serializers() -> None:
    assert default_bytes("é") == "é".encode()
    assert default_bytes(-1) == b"\xff" * 8
    assert default_bytes(1.0) == b"\x3f\xf0" + bytes(6)
    assert default_bytes(b"x") == b"x"
    assert default_bytes(True) == b"\xc3"


@given(st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.booleans(), st.tuples(st.integers())))
def test_a_stand_in_is_equal_exactly_where_the_bytes_are(key: Any) -> None:
    identity = KeyIdentity(Serdes())
    try:
        data = default_bytes(key)
    except CodecError:
        return
    assert key_bytes(identity.of(key)) == data
    assert identity.of(data) == identity.of(key)


def test_the_cache_of_integer_keys_is_bounded() -> None:
    identity = KeyIdentity(Serdes())
    for key in range(KeyIdentity.CACHE_LIMIT + 10):
        identity.of(key)
    assert len(identity._of_int) <= KeyIdentity.CACHE_LIMIT
    assert key_bytes(identity.of(3)) == default_bytes(3)


def test_a_streams_own_serdes_decide_identity_order_and_size() -> None:
    def folded(key: Any) -> bytes:
        return str(key).lower().encode()[::-1]

    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(TimeWindows.of_size(10).with_grace(0)).count().suppress(CLOSED)
        ),
        serdes=Serdes(key=folded, value=lambda value: b"x" * 100),
    )
    pipe_all(driver, [("AB", 1, 1), ("ab", 1, 2), ("BA", 1, 3)])
    assert driver.buffered == (2, 2 * (8 + 10 + 100 + 100 + 20 + 5))
    assert driver.pipe("z", 1, 10) == [W("BA", 0, 10, 1, 3), W("AB", 0, 10, 2, 2)]


@given(st.lists(st.tuples(st.integers(-50, 500), st.binary(max_size=2))), st.integers(1, 100), st.data())
def test_the_index_gives_back_in_order_whatever_is_put_between(
    items: list[tuple[int, bytes]], width: int, data: st.DataObject
) -> None:
    index: CalendarQueue[int] = CalendarQueue(width)
    waiting: list[tuple[int, bytes, int]] = []
    together = data.draw(st.integers(1, 4))
    for first in range(0, len(items), together):
        some = [(*each, first + number) for number, each in enumerate(items[first : first + together])]
        if data.draw(st.booleans()):
            count = index.fill(
                [number for *_, number in some], lambda number: items[number][0], lambda number: items[number][1], 0
            )
            some = [each for each in some if each[0] >= 0]
            assert count == len(some)
        else:
            for each in some:
                index.push(*each)
        waiting += some
        if data.draw(st.booleans()) and waiting:
            assert index.first_time() == min(waiting)[0]
            assert index.pop() == min(waiting)
            waiting.remove(min(waiting))
    assert sorted(index.items()) == sorted(waiting)
    limit = data.draw(st.integers(-60, 510))
    assert index.pop_before(limit) == sorted(each for each in waiting if each[0] < limit)
    assert index.pop_before(NEVER) == sorted(each for each in waiting if each[0] >= limit)
    assert index.first_time() == NEVER
    with pytest.raises(IndexError):
        index.pop()


def test_records_compare_without_context_and_finality_and_survive_copies() -> None:
    assert Record("a", 1, 5) == Record("a", 1, 5)
    assert Record("a", 1, 5) != Record("a", 1, 6)
    assert Record("a", 1, 5) != ("a", 1, 5)
    assert WindowedRecord("a", 0, 10, 1, 5, None, True) == W("a", 0, 10, 1, 5)
    assert W("a", 0, 10, 1, 5) != W("a", 0, 11, 1, 5)
    assert len({Record("a", 1, 5), Record("a", 1, 5), W("a", 0, 10, 1, 5), W("a", 0, 10, 1, 5)}) == 2
    for value in (Record("a", 1, 5), W("a", 0, 10, 1, 5)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert eval(repr(value)) == value
