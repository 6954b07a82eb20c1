"""Schemas of Spark from classes of records and from Arrow: the types of the fields say the types of the columns, and nothing is guessed.

    str  int     float   bool     bytes   date  datetime   timedelta            list[T]  dict[K, V]  a record  T | None
    string bigint double boolean  binary  date  timestamp  interval day…second  array    map         struct    may be null

A field without `None` in its type is NOT NULL. A Decimal has no digits in its type: `Annotated[Decimal, "decimal(10, 2)"]` gives them, and
any type may name its column type in this way: `Annotated[int, "int"]`."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin, get_type_hints

from streamactors.spark.errors import SparkSetupError
from streamactors.spark.values.records import has_fixed_names, names_in

_PLAIN: Final[Mapping[Any, str]] = {
    str: "string",
    int: "bigint",
    float: "double",
    bool: "boolean",
    bytes: "binary",
    date: "date",
    datetime: "timestamp",
    timedelta: "interval day to second",
}
_LISTS: Final = (list, set, frozenset, tuple, Sequence, Collection)
_MAPS: Final = (dict, Mapping)


def struct_of_class(kind: type) -> Any:
    """Return the StructType of a dataclass, a pydantic model or a msgspec struct; None for another class.

    Raises SparkSetupError naming a field whose type has no column type."""
    if names_in(kind) is None:
        return None
    return _struct(kind, kind.__qualname__, ())


def struct_of_arrow(schema: Any) -> Any:
    """Return the StructType of a pa.Schema. Raises SparkSetupError naming a field whose type Spark does not have."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema)
    except PySparkException as error:
        raise SparkSetupError(f"schema: Spark has no type for it: {str(error).splitlines()[0]}") from None


def _struct(kind: type, where: str, around: tuple[type, ...]) -> Any:
    from pyspark.sql.types import StructField, StructType

    if kind in around:
        raise SparkSetupError(
            f"schema: {where} contains {kind.__qualname__} again, and a schema has an end; give it as DDL"
        )
    if not has_fixed_names(kind):
        raise SparkSetupError(
            f"schema: the pydantic model {kind.__qualname__} allows fields that it does not name; give the schema as DDL"
        )
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise SparkSetupError(f"schema: a type of {where} is not known: {error}; give the schema as DDL") from None
    made = []
    for name in names_in(kind) or ():
        inner, may_be_null = _without_none(hints[name])
        made.append(StructField(name, _type(inner, f"{where}.{name}", (*around, kind)), nullable=may_be_null))
    return StructType(made)


def _type(kind: Any, where: str, around: tuple[type, ...]) -> Any:
    """Return the column type of a type that is not None."""
    from pyspark.sql.types import ArrayType, MapType

    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, NewType):
        return _type(kind.__supertype__, where, around)
    if origin is Annotated:
        named = next((each for each in arguments[1:] if isinstance(each, str)), None)
        return _type(arguments[0], where, around) if named is None else _named(named, where)
    if isinstance(kind, type) and kind in _PLAIN:
        return _named(_PLAIN[kind], where)
    shape = origin or kind
    if shape is tuple and arguments[1:] == (...,):
        arguments = arguments[:1]
    if shape in _LISTS and len(arguments) == 1:
        inner, may_be_null = _without_none(arguments[0])
        return ArrayType(_type(inner, f"{where}[]", around), may_be_null)
    if shape in _MAPS and len(arguments) == 2:
        inner, may_be_null = _without_none(arguments[1])
        return MapType(_type(arguments[0], f"{where}.key", around), _type(inner, f"{where}.value", around), may_be_null)
    if isinstance(kind, type) and names_in(kind) is not None:
        return _struct(kind, where, around)
    raise SparkSetupError(
        f"schema: {where} is of type {getattr(kind, '__name__', kind)}, which does not say its column type; "
        'write it as Annotated[…, "decimal(10, 2)"], or give the schema as DDL'
    )


def _named(text: str, where: str) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType

    try:
        return DataType.fromDDL(text)
    except PySparkException as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise SparkSetupError(
            f"schema: {where} is annotated with {text!r}, which is no column type: {reason}"
        ) from None


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was in it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner, may_be_null = _without_none(arguments[0])
        return (Annotated[(inner, *arguments[1:])], may_be_null) if may_be_null else (kind, False)
    if origin not in (Union, types.UnionType) or type(None) not in arguments:
        return kind, False
    others = tuple(each for each in arguments if each is not type(None))
    return (others[0] if len(others) == 1 else Union[others]), True  # noqa: UP007  # made of values
