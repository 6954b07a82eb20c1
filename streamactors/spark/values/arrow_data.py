"""Arrow data as a schema wants it: another order, width, unit or encoding is taken where every value stays what it is; else Misfit.

A type is judged as the same value in a row would be: numbers are no times, no booleans and no decimals with a fraction; strings are no
arrays. A struct may lack fields that may be null. Nulls under a null are no nulls of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streamactors.spark.values.leaves import infinite_by_cast
from streamactors.spark.values.misfit import Misfit, line_of, null

_is = pa.types


def requires(field: pa.Field) -> bool:
    """Return whether a field, or a part of it, must not be null."""
    return not field.nullable or any(map(requires, _parts(field.type)))


def fitted(array: Any, field: pa.Field, path: str) -> Any:
    """Return an array as the field wants it; the same array if it is. Raises Misfit."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([fitted(chunk, field, path) for chunk in array.chunks], type=field.type)
    kind = field.type
    if array.type != kind or any(map(requires, _parts(kind))):
        array = _fitted(array, kind, path)
    if not field.nullable and array.null_count:
        raise null(path)
    return array


def absent(field: pa.Field, rows: int, path: str) -> pa.Array:
    """Return the column of a field that the data does not have. Raises Misfit if it must not be null."""
    if not field.nullable and rows:
        raise null(path)
    return pa.nulls(rows, field.type)


def chosen(schema: Iterable[pa.Field], names: list[str], take: Callable[[int], Any], rows: int, path: str) -> list[Any]:
    """Return the fitted columns of named data in the order of the schema. Raises Misfit for a name that the schema does not have."""
    wanted = list(schema)
    known = [field.name for field in wanted]
    for name in names:
        if name not in known:
            raise Misfit(f"field '{path}{name}' is not in the schema, which has {', '.join(known)}")
        if names.count(name) > 1:
            raise Misfit(f"field '{path}{name}' occurs twice")
    places = {name: i for i, name in enumerate(names)}
    return [
        fitted(take(places[field.name]), field, path + field.name)
        if field.name in places
        else absent(field, rows, path + field.name)
        for field in wanted
    ]


def _fitted(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    if _is.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif _is.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    elif isinstance(array, pa.ExtensionArray):
        array = array.storage
    given = array.type
    if _is.is_null(given):
        return pa.nulls(len(array), kind)
    if _is.is_struct(kind) and _is.is_struct(given):
        return _struct(array, kind, path)
    if _is.is_map(kind) and _is.is_map(given):
        return _map(array, kind, path)
    if (_is.is_list(kind) or _is.is_large_list(kind)) and any(test(given) for test in _LISTS):
        return _list(array, kind, path)
    if given == kind:
        return array
    if not any(wanted(kind) and any(test(given) for test in tests) for wanted, tests in _TAKEN.items()):
        raise Misfit(f"field '{path}' is {given}, not {kind}{_hint(given, kind)}")
    try:
        return _cast(array, kind)
    except (pa.ArrowException, ValueError) as error:
        raise Misfit(f"field '{path}' is {given}, not {kind}: {line_of(error)}") from None


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    given = array.type
    if _is.is_timestamp(kind) and kind.tz is None and given.tz is not None:
        raise ValueError("a timestamp without a time zone cannot keep that of the data")
    if _is.is_decimal(kind) and _is.is_integer(given):
        # at once, Arrow would ask for room for every integer, not only for those that are there
        array = array.cast(pa.decimal256(76, kind.scale))
    made = array.cast(kind)
    if _is.is_float32(kind) and infinite_by_cast(array, made):
        raise ValueError("a value is too large for a 32-bit float")
    return made


def _struct(array: pa.StructArray, kind: pa.StructType, path: str) -> pa.Array:
    present = array.drop_null() if array.null_count else array
    columns = present.flatten()
    names = [field.name for field in present.type]
    found = chosen(kind, names, columns.__getitem__, len(present), f"{path}.")
    if not found:
        return array.cast(kind)
    return _with_nulls(pa.StructArray.from_arrays(found, fields=list(kind)), array)


def _list(array: Any, kind: Any, path: str) -> pa.Array:
    if _is.is_list_view(array.type) or _is.is_large_list_view(array.type):
        # its views may overlap, and Arrow's own cast loses those of a slice
        array = pa.array(array.to_pylist(), pa.list_(array.type.value_field))
    elif _is.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    present, offsets, elements = _laid_out(array)
    inner = fitted(present.values.slice(*elements), kind.value_field, f"{path}[]")
    large = _is.is_large_list(kind)
    make, offset = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
    return _with_nulls(make.from_arrays(offsets.cast(offset), inner, type=kind), array)


def _map(array: pa.MapArray, kind: pa.MapType, path: str) -> pa.Array:
    present, offsets, elements = _laid_out(array)
    keys = fitted(present.keys.slice(*elements), pa.field("key", kind.key_type, nullable=False), f"{path}.key")
    items = fitted(present.items.slice(*elements), kind.item_field, f"{path}.value")
    return _with_nulls(pa.MapArray.from_arrays(offsets, keys, items, type=kind), array)


def _laid_out(array: Any) -> tuple[Any, pa.Array, tuple[int, int]]:
    """Return the values of a list or map array other than null, their offsets from 0, and the start and number of their elements."""
    present = array.drop_null() if array.null_count else array
    offsets = present.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return present, pc.subtract(offsets, offsets[0]), (first, last - first)


def _with_nulls(present: pa.Array, like: pa.Array) -> pa.Array:
    """Put the nulls of `like` between the values that are present."""
    if not like.null_count:
        return present
    valid = like.is_valid()
    at = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return present.take(pc.if_else(valid, at, pa.scalar(None, pa.int64())))


def _parts(kind: pa.DataType) -> list[pa.Field]:
    if _is.is_struct(kind):
        return list(kind)
    if _is.is_map(kind):
        return [kind.item_field]
    if _is.is_list(kind) or _is.is_large_list(kind):
        return [kind.value_field]
    return []


def _hint(given: pa.DataType, kind: pa.DataType) -> str:
    if (_is.is_integer(given) or _is.is_floating(given)) and (_is.is_temporal(kind)):
        return "; a number may be seconds, milliseconds or microseconds"
    if _is.is_floating(given) and _is.is_decimal(kind):
        return "; a float would be rounded"
    if _is.is_floating(given) and _is.is_integer(kind):
        return "; a fraction would be lost"
    return "; cast it before"


def _any_string(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (_is.is_string, _is.is_large_string, _is.is_string_view))


def _any_binary(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (_is.is_binary, _is.is_large_binary, _is.is_fixed_size_binary, _is.is_binary_view)
    )


_LISTS: Final = (_is.is_list, _is.is_large_list, _is.is_fixed_size_list, _is.is_list_view, _is.is_large_list_view)
_Test = Callable[[pa.DataType], bool]
_TAKEN: Final[Mapping[_Test, tuple[_Test, ...]]] = {
    _is.is_integer: (_is.is_integer,),
    _is.is_floating: (_is.is_floating, _is.is_integer),
    _is.is_boolean: (_is.is_boolean,),
    _is.is_decimal: (_is.is_decimal, _is.is_integer),
    _any_string: (_any_string, _any_binary),
    _any_binary: (_any_binary, _any_string),
    _is.is_date: (_is.is_date,),
    _is.is_timestamp: (_is.is_timestamp,),
    _is.is_time: (_is.is_time,),
    _is.is_duration: (_is.is_duration,),
}
"""Kind of a column -> the kinds of data whose every value it can keep, or the cast names one that it cannot."""
