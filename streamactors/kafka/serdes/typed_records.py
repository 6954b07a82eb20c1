"""Serdes of classes: dataclasses, msgspec structs and pydantic models; the bytes are JSON.

msgspec and pydantic do their own classes. A dataclass is read here, by the types of its fields: unknown fields are ignored, a missing field
without a default or a value of another type is a Misfit, which becomes a dead letter or fails the stream."""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from streamactors.errors import BuildError

Read = Callable[[Any], Any]


class Misfit(ValueError):
    """A value that does not fit the type it should have; the message names the field."""


def functions_of_class(kind: type) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]] | None:
    """Return how values of a class become bytes and how bytes become values; None for a class of another kind."""
    if hasattr(kind, "__pydantic_validator__"):
        adapter = importlib.import_module("pydantic").TypeAdapter(kind)
        return _checked(kind, adapter.dump_json), adapter.validate_json
    if hasattr(kind, "__struct_fields__"):
        codec = importlib.import_module("msgspec").json
        return _checked(kind, codec.Encoder().encode), codec.Decoder(kind).decode
    if dataclasses.is_dataclass(kind):
        read = _reader(kind, kind.__qualname__)
        write = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=False).encode
        return _checked(kind, lambda value: write(value).encode()), lambda data: read(json.loads(data))
    return None


def _checked(kind: type, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def checked(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise Misfit(f"expected {kind.__qualname__}, got {type(value).__name__}")
        return write(value)

    return checked


# ── dataclasses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(value: Any) -> Any:
    """Return a JSON form of a value that the json module does not know."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_FROM_TEXT: Final[Mapping[Any, Callable[[str], Any]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    Decimal: Decimal,
    UUID: UUID,
    bytes: lambda text: base64.b64decode(text, validate=True),
}
_PLAIN: Final[Mapping[Any, tuple[type, ...]]] = {
    str: (str,),
    int: (int,),
    bool: (bool,),
    float: (float, int),
    types.NoneType: (types.NoneType,),
}
_MANY: Final[Mapping[Any, Callable[[Any], Any]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    Sequence: list,
    Collection: list,
}


def _reader(kind: Any, where: str) -> Read:
    """Return the function from a JSON value to a value of a type. Raises BuildError for a type that JSON cannot represent."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_reader(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda value: value
    if origin is typing.Annotated:
        return _reader(arguments[0], where)
    if origin in (Union, types.UnionType):
        return _first_of([_reader(each, where) for each in arguments], where, kind)
    if origin is Literal:
        return _one_of(arguments, where)
    if kind in _PLAIN:
        return _instance_of(kind, where)
    if kind in _FROM_TEXT or (isinstance(kind, type) and issubclass(kind, Enum)):
        return _converted(_FROM_TEXT.get(kind, kind), where, kind)
    shape = origin or kind
    if shape in (dict, Mapping):
        return _dict_reader(arguments or (str, Any), where)
    if shape is tuple and arguments[1:] != (...,) and arguments:
        return _tuple_reader(arguments, where)
    if shape in (*_MANY, tuple):
        inner = _reader(arguments[0] if arguments else Any, f"{where}[]")
        make = _MANY.get(shape, tuple)
        return lambda value: make(map(inner, _of_type(list, value, where)))
    raise BuildError(
        f"{where}: a {kind!r} cannot be read from JSON; use a pydantic model, a msgspec struct, or a function from bytes"
    )


def _dataclass_reader(kind: type) -> Read:
    fields: list[tuple[str, bool, Read]] = []
    name = kind.__qualname__

    def read(value: Any) -> Any:
        if not fields:  # at the first use: a dataclass may name itself
            fields.extend(_fields_of(kind))
        given = _of_type(dict, value, name)
        found = {}
        for field, needed, reader in fields:
            if field in given:
                found[field] = reader(given[field])
            elif needed:
                raise Misfit(f"{name}.{field} is missing")
        return kind(**found)

    if not any(kind in get_args(hint) or hint is kind for hint in hints_of(kind).values()):
        fields.extend(_fields_of(kind))
    return read


def hints_of(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise BuildError(
            f"{kind.__qualname__}: {error}; define the types of its fields at the top of the module"
        ) from None


def _fields_of(kind: type) -> list[tuple[str, bool, Read]]:
    hints = hints_of(kind)
    return [
        (
            field.name,
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            _reader(hints[field.name], f"{kind.__qualname__}.{field.name}"),
        )
        for field in dataclasses.fields(kind)
        if field.init
    ]


def _of_type(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise Misfit(f"{where}: expected {kind.__name__}, got {type(value).__name__} {value!r:.80}")
    return value


def _instance_of(kind: Any, where: str) -> Read:
    kinds = _PLAIN[kind]

    def read(value: Any) -> Any:
        if type(value) not in kinds:  # True is no int
            raise Misfit(f"{where}: expected {kind.__name__}, got {type(value).__name__} {value!r:.80}")
        return float(value) if kind is float else value

    return read


def _converted(convert: Callable[[Any], Any], where: str, kind: Any) -> Read:
    def read(value: Any) -> Any:
        try:
            if kind in _FROM_TEXT and not isinstance(value, str):
                raise TypeError(f"it is a {type(value).__name__}")
            return convert(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Misfit(f"{where}: {value!r:.80} is no {kind.__name__}: {error}") from None

    return read


def _first_of(readers: list[Read], where: str, kind: Any) -> Read:
    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except Misfit:
                continue
        raise Misfit(f"{where}: expected {kind}, got {type(value).__name__} {value!r:.80}")

    return read


def _one_of(values: tuple[Any, ...], where: str) -> Read:
    def read(value: Any) -> Any:
        if value not in values:
            raise Misfit(f"{where}: expected one of {', '.join(map(repr, values))}, got {value!r:.80}")
        return value

    return read


def _dict_reader(arguments: tuple[Any, ...], where: str) -> Read:
    key, inner = _reader(arguments[0], f"{where} key"), _reader(arguments[1], f"{where}[]")
    return lambda value: {key(name): inner(each) for name, each in _of_type(dict, value, where).items()}


def _tuple_reader(kinds: tuple[Any, ...], where: str) -> Read:
    readers = [_reader(kind, f"{where}[{place}]") for place, kind in enumerate(kinds)]

    def read(value: Any) -> Any:
        if len(_of_type(list, value, where)) != len(readers):
            raise Misfit(f"{where}: expected {len(readers)} elements, got {len(value)}")
        return tuple(reader(each) for reader, each in zip(readers, value, strict=True))

    return read
