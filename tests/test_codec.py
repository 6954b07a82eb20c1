"""The codec: every value comes back exactly, every other type is refused by name, nothing is unpickled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.codec import FIRST_FREE, MOST_TUPLES, CodecError, dumps, loads

zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.binary().map(bytearray), st.decimals(allow_nan=False),
    st.datetimes(timezones=zones),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.tuples(st.integers())), inner, max_size=3),
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, and of the same types at every level."""
    return bool(left == right) and repr(left) == repr(right)


@given(values)
@settings(max_examples=200)
def test_values_come_back_exactly(value: Any) -> None:
    assert same(loads(dumps(value)), value)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 1j, [object()], {"k": {3}}, (frozenset(),), type("Sub", (int,), {})(3)]
)
def test_other_types_are_refused_by_name(value: Any) -> None:
    with pytest.raises(CodecError, match="cannot be encoded"):
        dumps(value)


@pytest.mark.parametrize("value", ["\ud800", float("nan")])
def test_text_that_is_no_utf_8_is_refused_and_nan_is_kept(value: Any) -> None:
    if isinstance(value, str):
        with pytest.raises(CodecError):
            dumps(value)
    else:
        assert str(loads(dumps(value))) == "nan"


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        loads(data)
    except CodecError:
        pass


def test_a_pickle_is_never_loaded() -> None:
    with pytest.raises(CodecError):
        loads(pickle.dumps(Decimal(1)))


# ── depth: a tuple is msgpack inside msgpack, and unpackb keeps 40 KB on the C stack. 200 tuples ended the process ─────────────────────────


def nested(levels: int, wrap: Callable[[Any], Any], value: Any = 1) -> Any:
    for _ in range(levels):
        value = wrap(value)
    return value


def packed_tuples(levels: int) -> bytes:
    """Return what a writer without a limit makes of so many tuples."""
    data: bytes = msgpack.packb(1)
    for _ in range(levels):
        data = msgpack.packb(msgpack.ExtType(1, b"\x91" + data))
    return data


WRAPPINGS: list[Callable[[Any], Any]] = [
    lambda value: (value,),
    lambda value: [value],
    lambda value: {"key": value},
    lambda value: [(value,)],
    lambda value: {"key": (value, b"bytes")},
    lambda value: ([[[[value]]]],),
]


def part_values(part: Any) -> Any:
    return part.values() if isinstance(part, dict) else part


def depth_of(value: Any) -> int:
    """Return the depth without recursion: Python itself cannot compare values of more than 1,000 levels."""
    depth, level = 0, [value]
    while level := [inner for part in level if isinstance(part, list | tuple | dict) for inner in part_values(part)]:
        depth += 1
    return depth


@pytest.mark.parametrize("wrap", WRAPPINGS)
def test_a_nested_value_is_read_again_or_refused_when_it_is_written(wrap: Callable[[Any], Any]) -> None:
    for levels in (1, 3, 20, MOST_TUPLES - 1, MOST_TUPLES, MOST_TUPLES + 1, 1_000, 1_024, 1_025, 20_000):
        value = nested(levels, wrap)
        try:
            data = dumps(value)
        except CodecError as error:
            assert "nested too deep" in str(error)  # noqa: PT017
            assert levels > 100
        else:
            assert depth_of(loads(data)) == depth_of(value)


def test_lists_inside_tuples_count_as_well() -> None:
    # each tuple is packed by a call of its own, which allows 1,024 lists: together they are more than the C stack holds
    value = nested(150, lambda inner: (nested(900, lambda part: [part], inner),))
    with pytest.raises(CodecError, match="nested too deep"):
        dumps(value)


@pytest.mark.parametrize("value", [[], {}])
def test_a_value_inside_itself_is_refused(value: Any) -> None:
    inside = (value, value)
    if isinstance(value, list):
        value.append(inside)
    else:
        value["self"] = inside
    with pytest.raises(CodecError, match="nested too deep"):
        dumps(value)


def test_parts_of_other_types_count_the_tuples_around_them() -> None:
    value = nested(MOST_TUPLES + 1, lambda inner: (inner,))
    with pytest.raises(CodecError, match="nested too deep"):
        dumps([object(), value], lambda part: msgpack.ExtType(FIRST_FREE, b"") if type(part) is object else None)


def test_bytes_with_too_many_tuples_are_refused_and_never_end_the_process() -> None:
    # in a process of its own: without the limit the process ends with SIGSEGV
    program = f"""
from streamactors.codec import CodecError, loads
from tests.test_codec import packed_tuples, nested
assert loads(packed_tuples({MOST_TUPLES})) == nested({MOST_TUPLES}, lambda value: (value,))
assert loads(packed_tuples({MOST_TUPLES}), lambda code, data: None) == nested({MOST_TUPLES}, lambda value: (value,))
for levels in ({MOST_TUPLES + 1}, 1_000, 5_000):
    for more in (None, lambda code, data: None):
        try:
            loads(packed_tuples(levels), more)
        except CodecError:
            continue
        raise AssertionError(levels)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bytes_after_a_tuple_are_refused_at_every_depth() -> None:
    for levels in (1, 10):
        data = msgpack.packb(msgpack.ExtType(1, b"\x91\x01\x01"))
        for _ in range(levels):
            data = msgpack.packb(msgpack.ExtType(1, b"\x91" + data))
        with pytest.raises(CodecError):
            loads(data)


# ── buffers: msgpack writes bytearray and memoryview as bytes without a question ─────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"a"),
        (1, bytearray()),
        [b"a", bytearray(b"a")],
        {"key": [(b"x", {2: bytearray(b"a" * 300)})], (1, b"y"): b""},
        [1, bytearray(70_000)],
    ],
)
def test_a_bytearray_comes_back_as_a_bytearray(value: Any) -> None:
    # an aggregate that `add` extends in place was bytes after a restart
    assert same(loads(dumps(value)), value)


@pytest.mark.parametrize("value", [memoryview(b"a"), [(memoryview(b"a"), bytearray())], {(memoryview(b"a"),): 1}])
def test_a_memoryview_is_refused_by_name(value: Any) -> None:
    with pytest.raises(CodecError, match="a memoryview cannot be encoded"):
        dumps(value)
