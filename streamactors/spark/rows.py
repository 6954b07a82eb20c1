"""Rows to Arrow, a chunk at a time: tuples, dicts and dataclass instances become one record batch; Arrow data passes unchanged.

A chunk is converted column by column. Only when this fails are the values tried one by one, to name the row and the field that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from operator import attrgetter, index
from typing import Any

import pyarrow as pa

from streamactors.engine.user_code import shortened
from streamactors.spark.errors import RowError

BadRow = Callable[[Any, RowError], object]
Fix = Callable[[Any], Any]


class Rows:
    """Converts chunks for one schema. `on_bad_row(row, error)`, if given, gets the rows that do not fit; else the first raises."""

    def __init__(self, schema: pa.Schema, on_bad_row: BadRow | None = None) -> None:
        self._schema = schema
        self._fields = [schema.field(i) for i in range(len(schema))]
        self._names = [field.name for field in self._fields]
        self._known = frozenset(self._names)
        self._fixes = [_fix_of(field.type) for field in self._fields]
        self._on_bad_row = on_bad_row

    def batches(self, chunk: Sequence[Any]) -> list[pa.RecordBatch]:
        """Return the chunk as record batches without empty ones. Raises RowError naming the row and the field."""
        if has_arrow(chunk):
            return list(chain.from_iterable(map(self._arrow, chunk)))
        try:
            found = self._batch(chunk)
        except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, OverflowError):
            found = self._batch(self._fitting(chunk))
        return [found] if found.num_rows else []

    # ── arrow ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _arrow(self, element: Any) -> list[pa.RecordBatch]:
        if not isinstance(element, (pa.RecordBatch, pa.Table)):
            found = self._batch(self._fitting([element]))
            return [found] if found.num_rows else []
        if element.schema != self._schema:
            try:
                element = element.select(self._names).cast(self._schema)
            except (pa.ArrowException, ValueError, KeyError) as error:
                bad = RowError(f"Arrow data does not fit the schema: {_line(error)}; it has {_named(element.schema)}")
                if self._on_bad_row is None:
                    raise bad from None
                self._on_bad_row(element, bad)
                return []
        batches = [element] if isinstance(element, pa.RecordBatch) else element.to_batches()
        return [batch for batch in batches if batch.num_rows]

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        if not rows:
            return _empty(self._schema)
        arrays = []
        for field, fix, column in zip(self._fields, self._fixes, self._columns(rows), strict=True):
            if fix is _integer:
                values = _integers(column)
            else:
                values = column if fix is None else [None if value is None else fix(value) for value in column]
            array = pa.array(values, type=field.type)
            if not field.nullable and array.null_count:
                raise ValueError(f"{field.name} must not be null")
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
        kinds = set(map(type, rows))
        if len(kinds) > 1:
            return list(zip(*map(self._tuple, rows), strict=True))
        kind = kinds.pop()
        if issubclass(kind, (tuple, list)):
            columns = list(zip(*rows, strict=True))
            if len(columns) != len(self._names):
                raise ValueError(f"{len(columns)} values for {len(self._names)} fields")
            return columns
        if issubclass(kind, dict):
            if not all(map(self._known.issuperset, rows)):
                raise ValueError("a name that is no field")
            return [[row.get(name) for row in rows] for name in self._names]
        if is_dataclass(kind):
            return [list(map(attrgetter(name), rows)) for name in self._names]
        return list(zip(*map(self._tuple, rows), strict=True))

    def _tuple(self, row: Any) -> Sequence[Any]:
        """Return the values of one row in the schema's order. Raises ValueError saying what is wrong with it."""
        if isinstance(row, (tuple, list)):
            if len(row) != len(self._names):
                raise ValueError(f"it has {len(row)} values, the schema {len(self._names)} fields")
            return row
        if isinstance(row, Mapping):
            unknown = [name for name in row if name not in self._known]
            if unknown:
                raise ValueError(f"field {unknown[0]!r} is not in the schema")
            return [row.get(name) for name in self._names]
        if is_dataclass(row) and not isinstance(row, type):
            missing = [name for name in self._names if not hasattr(row, name)]
            if missing:
                raise ValueError(f"it has no field {missing[0]!r}")
            return [getattr(row, name) for name in self._names]
        raise ValueError(f"a row is a tuple, a dict, a dataclass instance or Arrow data, not {type(row).__name__}")

    def _fitting(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the rows that fit, as sequences; the others go to `on_bad_row`, or the first of them raises."""
        good = []
        for row in rows:
            try:
                values = self._tuple(row)
                for name, (field, fix), value in zip(
                    self._names, zip(self._fields, self._fixes, strict=True), values, strict=True
                ):
                    self._check(name, field, fix, value)
            except ValueError as error:
                bad = RowError(f"row {shortened(row, 120)}: {error}")
                if self._on_bad_row is None:
                    raise bad from None
                self._on_bad_row(row, bad)
            else:
                good.append(values)
        return good

    def _check(self, name: str, field: pa.Field, fix: Fix | None, value: Any) -> None:
        if value is None:
            if not field.nullable:
                raise ValueError(f"field {name!r} must not be null")
            return
        try:
            pa.array([value if fix is None else fix(value)], type=field.type)
        except Exception as error:  # noqa: BLE001  # whatever a value does when it is looked at
            raise ValueError(f"field {name!r} is {shortened(value, 60)}, not {field.type}: {_line(error)}") from None


def largest(chunk: Sequence[Any]) -> int:
    """Return the rows of the largest element: more than one only where there are tables."""
    return max(1, *(getattr(element, "num_rows", 1) for element in chunk)) if has_arrow(chunk) else 1


def has_arrow(chunk: Sequence[Any]) -> bool:
    """Return whether a chunk has Arrow data in it."""
    return any(issubclass(kind, (pa.RecordBatch, pa.Table)) for kind in set(map(type, chunk)))


# ── values within values ──────────────────────────────────────────────────────────────────────────────────────────────


def _fix_of(kind: pa.DataType) -> Fix | None:
    """Return the conversion of a nested value for pyarrow: a struct may be a tuple, a dict or a dataclass instance."""
    if pa.types.is_integer(kind):
        return _integer
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moment
    if pa.types.is_struct(kind):
        return _struct_fix(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _fix_of(kind.value_type)
        if inner is _integer:
            return _integers
        return None if inner is None else lambda values: [None if v is None else inner(v) for v in values]
    if pa.types.is_map(kind):
        key, item = _fix_of(kind.key_type), _fix_of(kind.item_type)

        def pairs(given: Any) -> list[tuple[Any, Any]]:
            entries = given.items() if isinstance(given, Mapping) else given
            return [(k if key is None else key(k), v if v is None or item is None else item(v)) for k, v in entries]

        return pairs
    return None


def _moment(value: Any) -> Any:
    """Refuse plain numbers: Arrow would accept them in an unknown unit."""
    if isinstance(value, (int, float)):
        raise TypeError("a date or datetime is needed; a number may be seconds, milliseconds or microseconds")
    return value


_INTEGERS = frozenset((int, type(None)))


def _integer(value: Any) -> Any:
    """Refuse fractions: Arrow would silently truncate 1.5 to 1."""
    return index(value)


def _integers(values: Sequence[Any]) -> Sequence[Any]:
    if _INTEGERS.issuperset(map(type, values)):
        return values
    return [None if value is None else index(value) for value in values]


def _struct_fix(kind: pa.StructType) -> Fix:
    names = [kind.field(i).name for i in range(kind.num_fields)]
    fixes = [_fix_of(kind.field(i).type) for i in range(kind.num_fields)]
    known = frozenset(names)

    def fixed(given: Any) -> dict[str, Any]:
        if isinstance(given, Mapping):
            if not known.issuperset(given):
                raise ValueError(f"{next(iter(set(given) - known))!r} is not in {names}")
            values: Iterable[Any] = (given.get(name) for name in names)
        elif is_dataclass(given) and not isinstance(given, type):
            have = {field.name for field in fields(given)}
            values = (getattr(given, name) if name in have else None for name in names)
        elif isinstance(given, (tuple, list)) and len(given) == len(names):
            values = given
        else:
            raise ValueError(f"a struct of {names} expected, got {shortened(given, 60)}")
        return {
            name: value if value is None or fix is None else fix(value)
            for name, fix, value in zip(names, fixes, values, strict=True)
        }

    return fixed


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], type=field.type) for field in schema], schema=schema)


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
