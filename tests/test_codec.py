"""The codec: every value comes back exactly, every other type is refused by name, nothing is unpickled."""

from __future__ import annotations

import pickle
from datetime import UTC, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.codec import CodecError, dumps, loads

zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.decimals(allow_nan=False),
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
