"""Columns: Python's values to Arrow arrays, a column at a time; within arrays, maps and structs, too.

A column raises when a value does not fit, without saying which. `check(value, path)` finds the value and its path; it is slow, and asked
only afterwards. Nulls are set aside before the parts of a value are looked at: a field that must not be null may lie in a struct that is."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streamactors.engine.user_code import shortened
from streamactors.spark.values.leaves import infinite_by_cast, leaf_of, unwrapped
from streamactors.spark.values.misfit import Misfit, misfit, null
from streamactors.spark.values.records import has_fixed_names, more_names, names_in

FEW: Final = 16
"""With fewer suspects than one in this many rows each is checked alone; with more, a check of the types of all values is cheaper."""


class Column:
    """A field of a schema, or the part of one. `array(values)` raises anything if they do not fit."""

    def __init__(self, field: pa.Field) -> None:
        self.kind: pa.DataType = field.type
        self.required = not field.nullable

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return the values as an array."""
        made = self._made(values)
        if self.required and made.null_count:
            raise ValueError("null")
        return made

    def check(self, value: Any, path: str) -> None:
        """Raise Misfit naming the first part of the value that does not fit."""
        if value is None:
            if self.required:
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
        self._plain, self._exact, self.suspects = leaf_of(field.type)

    def _made(self, values: Sequence[Any]) -> pa.Array:
        if self.suspects is not None:
            made = _made_by_arrow(values, self.kind)
            if made is not None and not _boolean_among(values, self.suspects(made)):
                return made
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


class _List(Column):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._inner = column_of(field.type.value_field)
        large = pa.types.is_large_list(field.type)
        self._make = pa.LargeListArray if large else pa.ListArray
        self._offset = pa.int64() if large else pa.int32()
        inner = self._inner
        self._judge = inner.suspects if isinstance(inner, _Leaf) and not inner.required else None
        """As in Leaf: Arrow makes lists of such elements in one call."""

    def _made(self, values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        if not kinds <= _LISTS:
            values = [None if value is None else _elements(value) for value in values]
        if self._judge is not None:
            made = _made_by_arrow(values, self.kind)
            if made is not None and not _boolean_within(values, made, self._judge(made.values)):
                return made
        present, offsets = _laid_out(values, _NULL in kinds, self._offset)
        inner = self._inner.array(list(chain.from_iterable(present)))
        return self._make.from_arrays(offsets, inner, type=self.kind)

    def _check(self, value: Any, path: str) -> None:
        try:
            elements = _elements(value)
        except TypeError as error:
            raise misfit(path, value, self.kind, error) from None
        for i, element in enumerate(elements):
            self._inner.check(element, f"{path}[{i}]")


class _Map(Column):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._key = column_of(pa.field("key", field.type.key_type, nullable=False))
        self._item = column_of(field.type.item_field)

    def _made(self, values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        if kinds <= _DICTS:
            present, offsets = _laid_out(values, _NULL in kinds, pa.int32())
            keys = list(chain.from_iterable(present))
            items = list(chain.from_iterable(map(dict.values, present)))
        else:
            if not kinds <= _LISTS:
                values = [None if value is None else _entries(value) for value in values]
            present, offsets = _laid_out(values, _NULL in kinds, pa.int32())
            pairs = list(chain.from_iterable(present))
            if not (_PAIRS.issuperset(map(type, pairs)) and _TWO.issuperset(map(len, pairs))):
                raise TypeError("a pair (key, value) is needed")
            keys, items = [key for key, _ in pairs], [item for _, item in pairs]
        return pa.MapArray.from_arrays(offsets, self._key.array(keys), self._item.array(items), type=self.kind)

    def _check(self, value: Any, path: str) -> None:
        try:
            pairs = _entries(value)
        except (TypeError, ValueError) as error:
            raise misfit(path, value, self.kind, error) from None
        for key, item in pairs:
            self._key.check(key, f"{path}.key")
            self._item.check(item, f"{path}[{shortened(key, 20)}]")


class _Struct(Column):
    def __init__(self, field: pa.Field) -> None:
        super().__init__(field)
        self._parts = Fields(list(field.type))

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
        if not self._parts.names:
            return pa.array([dict(self._parts.values_of(value)) for value in values], type=self.kind)
        columns = self._parts.arrays(values, set(map(type, values)))
        return pa.StructArray.from_arrays(columns, fields=list(self.kind))

    def _check(self, value: Any, path: str) -> None:
        try:
            self._parts.check(value, f"{path}.")
        except Misfit:
            raise
        except ValueError as error:
            raise misfit(path, value, f"struct<{', '.join(self._parts.names)}>", error) from None


class Fields:
    """The named fields of a row, or of a struct: a tuple, a mapping or a record gives their values."""

    def __init__(self, schema: Iterable[pa.Field]) -> None:
        self._columns = [(field.name, column_of(field)) for field in schema]
        self.names = [name for name, _ in self._columns]
        self._known = frozenset(self.names)

    def arrays(self, rows: Sequence[Any], kinds: set[type]) -> list[pa.Array]:
        """Return a column for each field, given the types of the rows. Raises anything if a row does not fit."""
        if not rows:
            return [column.array(()) for _, column in self._columns]
        columns = self._split(rows, kinds)
        return [column.array(values) for (_, column), values in zip(self._columns, columns, strict=True)]

    def check(self, row: Any, path: str = "") -> None:
        """Raise ValueError saying what of a row does not fit; a Misfit if it is the value of a field."""
        for (name, column), value in zip(self._columns, self.values_of(row), strict=True):
            column.check(value, path + name)

    def _split(self, rows: Sequence[Any], kinds: set[type]) -> Iterable[Sequence[Any]]:
        if len(kinds) == 1:
            (kind,) = kinds
            if issubclass(kind, (tuple, list)):
                return zip(*rows, strict=True)
            if issubclass(kind, dict) and all(map(self._known.issuperset, rows)):
                return [[row.get(name) for row in rows] for name in self.names]
            names = names_in(kind)
            if names is not None and self._known.issuperset(names) and has_fixed_names(kind):
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
        names = names_in(type(row))
        if names is not None:
            missing = [name for name in self.names if not hasattr(row, name)]
            if missing:
                raise ValueError(f"it has no field {missing[0]!r}")
            self._refuse_others((*names, *more_names(row)))
            return [getattr(row, name) for name in self.names]
        raise ValueError(
            f"a tuple, a dict or a record is needed, not {type(row).__name__}; a record is of a dataclass, pydantic model or msgspec struct"
        )

    def _refuse_others(self, names: Iterable[Any]) -> None:
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise ValueError(f"field {unknown[0]!r} is not in the schema, which has {', '.join(self.names)}")


_NULL = type(None)
_LISTS = frozenset((list, tuple, _NULL))
_DICTS = frozenset((dict, _NULL))
_PAIRS = frozenset((tuple, list))
_TWO = frozenset((2,))
_FLOATS = frozenset((float, _NULL))


def _made_by_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Return the values as Arrow makes them; None if it refuses one, which may be one that needs a conversion of ours."""
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _boolean_among(values: Sequence[Any], suspects: pa.Array | None) -> bool:
    """Return whether one of the values at these places is a boolean."""
    if suspects is None:
        return False
    if len(suspects) > len(values) // FEW:
        return bool in set(map(type, values))
    return any(type(values[i]) is bool for i in suspects.to_pylist())


def _boolean_within(lists: Sequence[Any], made: pa.Array, suspects: pa.Array | None) -> bool:
    """As `_boolean_among`, for the elements of lists, of which Arrow has made one array."""
    if suspects is None:
        return False
    rows = pc.unique(pc.list_parent_indices(made).take(suspects))
    if len(rows) <= len(lists) // FEW:
        lists = [lists[i] for i in rows.to_pylist()]
    present = [each for each in lists if each is not None] if made.null_count else lists
    return bool in set(map(type, chain.from_iterable(present)))


def _elements(value: Any) -> Any:
    """Return the elements of an array's value. Raises TypeError: a string is not an array of its letters."""
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


def _entries(value: Any) -> Sequence[tuple[Any, Any]]:
    """Return the pairs of a map: of a mapping, or of a list of pairs."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return list(value.items())
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"a dict or a list of pairs is needed, not {type(value).__name__}")
    for pair in value:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"a pair (key, value) is needed, got {shortened(pair, 40)}")
    return value


def _laid_out(values: Sequence[Any], has_null: bool, offset: pa.DataType) -> tuple[Sequence[Any], pa.Array]:
    """Return the values other than null, and where the parts of each value begin; null for a null."""
    if not has_null:
        return values, pa.array(list(accumulate(map(len, values), initial=0)), offset)
    places = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
    begins = [None if value is None else place for value, place in zip(values, places, strict=False)]
    return [value for value in values if value is not None], pa.array([*begins, places[-1]], offset)
