"""Python's values for Arrow types without parts. numpy's, pandas' and pyarrow's values are what their Python equals are.

A leaf has the types whose values Arrow takes as they are; a column of only these goes to Arrow untouched. Every other value passes the
leaf's function, which returns it exactly or raises TypeError or ValueError saying why not. For strings, bytes, booleans and decimals Arrow is as
strict as that function, and for doubles but for booleans. Such a column goes to Arrow first, because a look at each type costs half as much as
the conversion."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import index
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Exact = Callable[[Any], Any]
_NULL: Final = type(None)
_NONE: Final[frozenset[type]] = frozenset()
_TOO_FINE: Final = "it has nanoseconds, and Spark keeps microseconds"
_NANOSECONDS: Final = ("nanosecond", "nanoseconds")
"""What a Timestamp and a Timedelta of pandas have beyond Python's datetime and timedelta."""
_UNIT: Final = "a number may be seconds, milliseconds or microseconds"
_LARGEST_SINGLE: Final = 3.4028235677973362e38
"""From here on a number is rounded to an infinite float, not to the largest one."""


class Leaf(NamedTuple):
    """`plain`: types whose values need no look. `exact(value)`: any other value, but null, as Arrow takes it.

    `suspects(made)`: the places in an array of Arrow's making that may have come from a value that does not fit; None: there are none.
    A leaf without this function is one of which Arrow takes too much."""

    plain: frozenset[type]
    exact: Exact
    suspects: Callable[[pa.Array], pa.Array | None] | None = None


def leaf_of(kind: pa.DataType) -> Leaf:
    """Return the leaf of an Arrow type."""
    for applies, leaf in _LEAVES:
        if applies(kind):
            return leaf
    if pa.types.is_timestamp(kind):
        return Leaf(frozenset((datetime, _NULL)), _moment) if kind.tz else Leaf(frozenset((_NULL,)), _local)
    return Leaf(frozenset((_NULL,)), unwrapped)


def _none(made: pa.Array) -> None:
    return None


def _booleans(made: pa.Array) -> pa.Array | None:
    """Return the places of zeros and ones: Arrow makes them of booleans, too."""
    found = pc.indices_nonzero(pc.or_(pc.equal(made, 0.0), pc.equal(made, 1.0)))
    return found if len(found) else None


def infinite_by_cast(given: Any, singles: Any) -> bool:
    """Return whether the cast of numbers to 32-bit floats has made one infinite that was not."""
    return bool(pc.any(pc.is_inf(singles)).as_py()) and bool(
        pc.any(pc.and_(pc.is_inf(singles), pc.is_finite(given))).as_py()
    )


def unwrapped(value: Any) -> Any:
    """Return the Python equal of a value of numpy, pandas or pyarrow; any other value as it is."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if type(value).__name__ in ("NaTType", "NAType"):
        raise TypeError("a missing value of pandas is not a null; give None")
    if isinstance(value, (datetime, timedelta)) and any(getattr(value, name, 0) for name in _NANOSECONDS):
        raise ValueError(_TOO_FINE)
    numpy = sys.modules.get("numpy")
    if numpy is None or not (isinstance(value, numpy.generic) or (isinstance(value, numpy.ndarray) and not value.ndim)):
        return value
    if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        if numpy.isnat(value):
            raise TypeError("a missing value of numpy (NaT) is not a null; give None")
        name, unit = ("datetime64", "timedelta64")[isinstance(value, numpy.timedelta64)], numpy.datetime_data(value)[0]
        if unit in ("ns", "ps", "fs", "as"):
            exact = value.astype(f"{name}[us]")
            if exact != value:
                raise ValueError(_TOO_FINE)
            value = exact
        return value.item()
    if value is numpy.ma.masked:
        raise TypeError("a masked value of numpy is not a null; give None")
    return value.tolist()


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return index(value)


def _double(value: Any) -> Any:
    value = unwrapped(value)
    if isinstance(value, bool) or not isinstance(value, (float, int)):
        raise TypeError("a float or an int is needed")
    return value


def _single(value: Any) -> Any:
    value = _double(value)
    if abs(value) >= _LARGEST_SINGLE and not math.isinf(value):
        raise ValueError("it is too large for a 32-bit float")
    return value


def _boolean(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, bool):
        raise TypeError("True or False is needed")
    return value


def _decimal(value: Any) -> Any:
    value = unwrapped(value)
    if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
        raise TypeError("a Decimal or an int is needed; a float would be rounded")
    return value


def _string(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError("a string is needed")
    return value


def _bytes(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError("bytes are needed")
    return value


def _date(value: Any) -> Any:
    value = unwrapped(value)
    if isinstance(value, datetime):
        raise TypeError("a datetime has a time of day, too; give its date()")
    if not isinstance(value, date):
        raise TypeError(f"a date is needed; {_UNIT}" if _is_number(value) else "a date is needed")
    return value


def _moment(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, datetime):
        raise TypeError(f"a datetime is needed; {_UNIT}" if _is_number(value) else "a datetime is needed")
    return value


def _local(value: Any) -> Any:
    value = _moment(value)
    if value.tzinfo is not None:
        raise ValueError("a timestamp without a time zone cannot keep that of a datetime; give it without tzinfo")
    return value


def _time(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, time):
        raise TypeError(f"a time is needed; {_UNIT}" if _is_number(value) else "a time is needed")
    if value.tzinfo is not None:
        raise ValueError("a column of times has no time zone; give the time without tzinfo")
    return value


def _duration(value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, timedelta):
        raise TypeError(f"a timedelta is needed; {_UNIT}" if _is_number(value) else "a timedelta is needed")
    return value


def _nothing(value: Any) -> None:
    raise TypeError("the column has only nulls")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal))


def _leaf(exact: Exact, *plain: type) -> Leaf:
    return Leaf(frozenset((*plain, _NULL)), exact)


_LEAVES: Final[tuple[tuple[Callable[[pa.DataType], bool], Leaf], ...]] = (
    (pa.types.is_integer, _leaf(_integer, int)),
    (pa.types.is_float64, Leaf(_NONE, _double, _booleans)),
    (pa.types.is_float32, _leaf(_single)),
    (pa.types.is_boolean, Leaf(_NONE, _boolean, _none)),
    (pa.types.is_decimal, Leaf(_NONE, _decimal, _none)),
    (pa.types.is_string, Leaf(_NONE, _string, _none)),
    (pa.types.is_large_string, Leaf(_NONE, _string, _none)),
    (pa.types.is_binary, Leaf(_NONE, _bytes, _none)),
    (pa.types.is_large_binary, Leaf(_NONE, _bytes, _none)),
    (pa.types.is_date, _leaf(_date, date)),
    (pa.types.is_time, _leaf(_time)),
    (pa.types.is_duration, _leaf(_duration, timedelta)),
    (pa.types.is_null, _leaf(_nothing)),
)
