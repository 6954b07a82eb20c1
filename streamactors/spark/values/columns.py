"""Columns: Python's values to Arrow arrays, a column at a time; within arrays, maps and structs, too.

A column raises when a value does not fit, without saying which. `check(value, path)` finds the value and its path; it is slow, and asked
only afterwards. Nulls are set aside before the parts of a value are looked at: a field that must not be null may lie in a struct that is."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import pyarrow as pa

from streamactors.engine.user_code import shortened
from streamactors.spark.values.leaves import infinite_by_cast, leaf_of, unwrapped
from streamactors.spark.values.misfit import Misfit, misfit, null


class Column:
    """A field of a schema, or the part of one. `array(values)` raises anything if they do not fit."""

    def __init__(self, field: pa.Field) -> None:
        self.kind: pa.DataType = field.type
        self._required = not field.nullable

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return the values as an array."""
        made = self._made(values)
        if self._required and made.null_count:
            raise ValueError("null")
        return made

    def check(self, value: Any, path: str) -> None:
        """Raise Misfit naming the first part of the value that does not fit."""
        if value is None:
            if self._required:
                raise null(path)
            return
        self._check(value, path)

    def _made(self, values: Sequence[Any]) -> pa.Array:
        raise NotImplementedError  # pragma: no cover

    def _check(self, value: Any, path: str) -> None:
        raise NotImplementedError  # pragma: no cover


def column_of(field: pa.Field) -> Column:
    """Return the column of a field."""
    kind = field.type
    if pa.types.is_struct(kind):
        return _Struct(field)
    if pa.types.is_map(kind):
        return _Map(field)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _List(field)
    return _Single(field) if pa.types.is_float32(kind) else _Leaf(field)


class _Leaf(Column):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._plain, self._exact = leaf_of(field.type)

    def _made(self, values: Sequence[Any]) -> pa.Array:
        if not self._plain.issuperset(map(type, values)):
            exact = self._exact
            values = [None if value is None else exact(value) for value in values]
        return pa.array(values, type=self.kind)

    def _check(self, value: Any, path: str) -> None:
        try:
            self.array([value])
        except Exception as error:  # noqa: BLE001  # whatever a value does when it is looked at
            raise misfit(path, value, self.kind, error) from None


class _Single(_Leaf):
    """Floats of 32 bits. Arrow makes a float that is too large an infinite one."""

    def _made(self, values: Sequence[Any]) -> pa.Array:
        if not _FLOATS.issuperset(map(type, values)):
            return super()._made(values)
        doubles = pa.array(values, pa.float64())
        singles = doubles.cast(self.kind)
        if infinite_by_cast(doubles, singles):
            raise ValueError("too large")
        return singles


class _Nested(Column):
    """A value with parts."""

    def _made(self, values: Sequence[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        found = self._of(present)
        if len(present) == len(values):
            return found
        places = accumulate((value is not None for value in values), initial=0)
        return found.take(
            pa.array([None if value is None else at for value, at in zip(values, places, strict=False)], pa.int64())
        )

    def _of(self, values: list[Any]) -> pa.Array:
        """Return values other than null as an array."""
        raise NotImplementedError  # pragma: no cover


class _List(_Nested):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._inner = column_of(field.type.value_field)
        large = pa.types.is_large_list(field.type)
        self._make = pa.LargeListArray if large else pa.ListArray
        self._offset = pa.int64() if large else pa.int32()

    def _of(self, values: list[Any]) -> pa.Array:
        if not _LISTS.issuperset(map(type, values)):
            values = list(map(_elements, values))
        inner = self._inner.array(list(chain.from_iterable(values)))
        return self._make.from_arrays(pa.array(_offsets(values), self._offset), inner, type=self.kind)

    def _check(self, value: Any, path: str) -> None:
        try:
            elements = _elements(value)
        except TypeError as error:
            raise misfit(path, value, self.kind, error) from None
        for i, element in enumerate(elements):
            self._inner.check(element, f"{path}[{i}]")


class _Map(_Nested):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._key = column_of(pa.field("key", field.type.key_type, nullable=False))
        self._item = column_of(field.type.item_field)

    def _of(self, values: list[Any]) -> pa.Array:
        entries = list(map(_entries, values))
        keys = self._key.array(list(chain.from_iterable(keys for keys, _ in entries)))
        items = self._item.array(list(chain.from_iterable(items for _, items in entries)))
        offsets = pa.array(_offsets([keys for keys, _ in entries]), pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, type=self.kind)

    def _check(self, value: Any, path: str) -> None:
        try:
            keys, items = _entries(value)
        except (TypeError, ValueError) as error:
            raise misfit(path, value, self.kind, error) from None
        for key, item in zip(keys, items, strict=True):
            self._key.check(key, f"{path}.key")
            self._item.check(item, f"{path}[{shortened(key, 20)}]")


class _Struct(_Nested):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._parts = Fields(list(field.type))

    def _of(self, values: list[Any]) -> pa.Array:
        if not self._parts.names:
            return pa.array([dict(self._parts.values_of(value)) for value in values], type=self.kind)
        return pa.StructArray.from_arrays(self._parts.arrays(values), fields=list(self.kind))

    def _check(self, value: Any, path: str) -> None:
        try:
            self._parts.check(value, f"{path}.")
        except Misfit:
            raise
        except ValueError as error:
            raise misfit(path, value, f"struct<{', '.join(self._parts.names)}>", error) from None


class Fields:
    """The named fields of a row, or of a struct: a tuple, a mapping or a dataclass instance gives their values."""

    def __init__(self, schema: Iterable[pa.Field]) -> None:
        self._columns = [(field.name, column_of(field)) for field in schema]
        self.names = [name for name, _ in self._columns]
        self._known = frozenset(self.names)

    def arrays(self, rows: Sequence[Any]) -> list[pa.Array]:
        """Return a column for each field. Raises anything if a row does not fit."""
        if not rows:
            return [column.array(()) for _, column in self._columns]
        return [column.array(values) for (_, column), values in zip(self._columns, self._split(rows), strict=True)]

    def check(self, row: Any, path: str = "") -> None:
        """Raise ValueError saying what of a row does not fit; a Misfit if it is the value of a field."""
        for (name, column), value in zip(self._columns, self.values_of(row), strict=True):
            column.check(value, path + name)

    def _split(self, rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
        kinds = set(map(type, rows))
        kind = kinds.pop()
        if not kinds:
            if issubclass(kind, (tuple, list)):
                return zip(*rows, strict=True)
            if issubclass(kind, dict) and all(map(self._known.issuperset, rows)):
                return [[row.get(name) for row in rows] for name in self.names]
            if is_dataclass(kind) and self._known.issuperset(field.name for field in fields(kind)):
                return [list(map(attrgetter(name), rows)) for name in self.names]
        return zip(*map(self.values_of, rows), strict=True)

    def values_of(self, row: Any) -> Sequence[Any]:
        """Return the values of one row in the schema's order. Raises ValueError saying what is wrong with it."""
        if isinstance(row, pa.Scalar):
            row = row.as_py()
        if isinstance(row, (tuple, list)):
            if len(row) != len(self.names):
                raise ValueError(f"it has {len(row)} values, the schema {len(self.names)} fields")
            return row
        if isinstance(row, Mapping):
            self._refuse_others(row)
            return [row.get(name) for name in self.names]
        if is_dataclass(row) and not isinstance(row, type):
            missing = [name for name in self.names if not hasattr(row, name)]
            if missing:
                raise ValueError(f"it has no field {missing[0]!r}")
            self._refuse_others(field.name for field in fields(row))
            return [getattr(row, name) for name in self.names]
        raise ValueError(f"a tuple, a dict or a dataclass instance is needed, not {type(row).__name__}")

    def _refuse_others(self, names: Iterable[Any]) -> None:
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise ValueError(f"field {unknown[0]!r} is not in the schema, which has {', '.join(self.names)}")


_LISTS = frozenset((list, tuple))
_FLOATS = frozenset((float, type(None)))


def _elements(value: Any) -> Any:
    """Return the elements of an array's value. Raises TypeError: a string is no array of its letters."""
    value = unwrapped(value)
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"a list is needed; {type(value).__name__} is one value, not an array of its parts")
    if isinstance(value, (Sequence, Set, array)):
        return value
    if isinstance(value, pa.Array):
        return value.to_pylist()
    if hasattr(value, "tolist"):  # an array of numpy, a Series of pandas
        whole = getattr(value.dtype, "kind", "M") in "mM" or hasattr(value, "mask")  # tolist would lose units, or masks
        return list(value) if whole else value.tolist()
    raise TypeError(f"a list is needed, not {type(value).__name__}")


def _entries(value: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the keys and the values of a map: a mapping, or a list of pairs."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return list(value), list(value.values())
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"a dict or a list of pairs is needed, not {type(value).__name__}")
    for pair in value:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"a pair (key, value) is needed, got {shortened(pair, 40)}")
    return [key for key, _ in value], [item for _, item in value]


def _offsets(values: Sequence[Any]) -> list[int]:
    return list(accumulate(map(len, values), initial=0))
