"""Decodes messages into plain objects.

Each struct of a schema becomes a small class with the schema's names and a list of steps, one per field or run of fixed-size
fields. A field that the message's version does not have reads as Kafka's default, so a handler is written once, for the newest
version.

kio's own reader is not used for data from a socket: it allocates memory for the lengths it reads, so a frame of a dozen bytes that
claims two billion elements aborts the process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any

from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.primitives import (
    MAX_ELEMENTS,
    read_array_length,
    read_nullable_bytes,
    read_nullable_string,
    read_uvarint,
    skip_tagged_fields,
    tagged_field_count,
)
from streamactors.broker.protocol.schema import load_struct, newest_field
from streamactors.broker.protocol.structures import NUMBERS, Direction, FieldSchema, StructSchema

Decoder = Callable[[memoryview, int], Any]
Reader = Callable[["Cursor"], Any]


class Cursor:
    """The position of a decoder, and how many more elements and tagged fields this message may have."""

    __slots__ = ("elements_left", "position", "view")

    def __init__(self, view: memoryview, position: int) -> None:
        self.view = view
        self.position = position
        self.elements_left = MAX_ELEMENTS

    def take(self, count: int) -> None:
        """Count more elements. Raises MalformedMessage if the message has too many."""
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedMessage(f"more than {MAX_ELEMENTS} elements in one message")


class Decoded:
    """A decoded struct; its attributes are the fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        known = {name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())}
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in sorted(known))
        return f"{type(self).__name__}({values})"


@cache
def decoder(key: int, version: int, direction: Direction) -> Decoder:
    """Return a function of (view, position) that decodes one message and raises MalformedMessage."""
    schema = load_struct(key, version, direction)
    read = _struct_reader(schema, key, direction)

    def decode(view: memoryview, position: int) -> Any:
        try:
            return read(Cursor(view, position))
        except MalformedMessage as cause:
            raise MalformedMessage(f"{schema.name} version {version}: {cause}") from None
        except error:
            raise MalformedMessage(f"{schema.name} version {version}: the message ends too early") from None

    return decode


@cache
def _struct_reader(schema: StructSchema, key: int, direction: Direction) -> Reader:
    kind = _class_of(schema, key, direction)
    make = kind.__new__
    plain = [known for known in schema.fields if known.tag is None]
    tagged = {known.tag: known for known in schema.fields if known.tag is not None}
    steps = [_step(run, schema.flexible, key, direction) for run in _runs(plain)]
    tags = _tagged_step(tagged, schema, key, direction) if schema.flexible else None

    def read(cursor: Cursor) -> Any:
        made = make(kind)
        for step in steps:
            step(made, cursor)
        if tags is not None:
            tags(made, cursor)
        return made

    return read


def _runs(fields: list[FieldSchema]) -> list[list[FieldSchema]]:
    """Group neighbouring fields of fixed size; every other field is a group of its own."""
    runs: list[list[FieldSchema]] = []
    joinable = False
    for known in fields:
        fixed = known.type in NUMBERS and not known.is_array
        if fixed and joinable:
            runs[-1].append(known)
        else:
            runs.append([known])
        joinable = fixed
    return runs


def _step(run: list[FieldSchema], compact: bool, key: int, direction: Direction) -> Callable[[Any, Cursor], None]:
    first = run[0]
    if first.type in NUMBERS and not first.is_array:
        packed = Struct(">" + "".join(NUMBERS[str(known.type)] for known in run))
        names = [known.name for known in run]
        unpack, size = packed.unpack_from, packed.size

        def read_fixed(made: Any, cursor: Cursor) -> None:
            for name, value in zip(names, unpack(cursor.view, cursor.position), strict=True):
                setattr(made, name, value)
            cursor.position += size

        return read_fixed
    read = _field_reader(first, compact, key, direction)
    name = first.name

    def read_field(made: Any, cursor: Cursor) -> None:
        setattr(made, name, read(cursor))

    return read_field


def _tagged_step(
    tagged: dict[int, FieldSchema], schema: StructSchema, key: int, direction: Direction
) -> Callable[[Any, Cursor], None]:
    readers = {tag: (known.name, _field_reader(known, True, key, direction)) for tag, known in tagged.items()}
    defaults = [(known.name, _default(known, key, direction)) for known in tagged.values()]

    def read_tagged(made: Any, cursor: Cursor) -> None:
        for name, value in defaults:
            setattr(made, name, value)
        view = cursor.view
        count = tagged_field_count(view, cursor.position)
        cursor.take(count)
        if not readers:
            cursor.position = skip_tagged_fields(view, cursor.position)
            return
        cursor.position += 1
        for _ in range(count):
            tag, position = read_uvarint(view, cursor.position)
            size, position = read_uvarint(view, position)
            end = position + size
            if end > len(view):
                raise MalformedMessage(f"a tagged field of {size} bytes passes the end of the message")
            if tag in readers:
                name, read = readers[tag]
                cursor.position = position
                setattr(made, name, read(cursor))
                if cursor.position != end:
                    raise MalformedMessage(f"tagged field {name} of {schema.name} does not fill its {size} bytes")
            cursor.position = end

    return read_tagged


def _field_reader(known: FieldSchema, compact: bool, key: int, direction: Direction) -> Reader:
    optional = known.nullable and not known.is_array
    if isinstance(known.type, StructSchema):
        item = _struct_reader(known.type, key, direction)
        if optional:
            item = _nullable_struct(item)
    else:
        item = _primitive_reader(known.type, optional, compact)
    return _array_reader(item, known, compact) if known.is_array else item


def _nullable_struct(read: Reader) -> Reader:
    def read_nullable(cursor: Cursor) -> Any:
        if cursor.position >= len(cursor.view):
            raise MalformedMessage("the message ends before a struct")
        present = cursor.view[cursor.position] == 1
        cursor.position += 1
        return read(cursor) if present else None

    return read_nullable


def _array_reader(read: Reader, known: FieldSchema, compact: bool) -> Reader:
    def read_array(cursor: Cursor) -> tuple[Any, ...] | None:
        length, cursor.position = read_array_length(cursor.view, cursor.position, compact)
        if length < 0:
            if not known.nullable:
                raise MalformedMessage(f"null where the array {known.name} must be")
            return None
        cursor.take(length)
        return tuple([read(cursor) for _ in range(length)])

    return read_array


def _primitive_reader(kind: str, optional: bool, compact: bool) -> Reader:
    if kind in NUMBERS:
        packed = Struct(">" + NUMBERS[kind])

        def read_number(cursor: Cursor) -> Any:
            (value,) = packed.unpack_from(cursor.view, cursor.position)
            cursor.position += packed.size
            return value

        return read_number
    if kind == "uuid":
        return _read_uuid

    def read_text(cursor: Cursor) -> Any:
        value, cursor.position = read_nullable_string(cursor.view, cursor.position, compact)
        if value is None and not optional:
            raise MalformedMessage("null where a string must be")
        return value

    def read_binary(cursor: Cursor) -> Any:
        value, cursor.position = read_nullable_bytes(cursor.view, cursor.position, compact)
        if value is None and not optional:
            raise MalformedMessage("null where bytes must be")
        return None if value is None else bytes(value)

    return read_text if kind == "string" else read_binary


def _read_uuid(cursor: Cursor) -> uuid.UUID | None:
    end = cursor.position + 16
    if end > len(cursor.view):
        raise MalformedMessage("the message ends inside a UUID")
    value = uuid.UUID(bytes=bytes(cursor.view[cursor.position : end]))
    cursor.position = end
    return value if value.int else None


@cache
def _class_of(schema: StructSchema, key: int, direction: Direction) -> Any:
    def missing(self: Any, name: str) -> Any:
        # Python calls this only for a field that this version lacks.
        known = None if name.startswith("__") else newest_field(key, direction, schema.name, name)
        if known is None:
            raise AttributeError(f"{schema.name} has no field {name!r} in any version")
        return _default(known, key, direction)

    names = tuple(known.name for known in schema.fields)
    return type(schema.name, (Decoded,), {"__slots__": names, "__getattr__": missing})


def _default(known: FieldSchema, key: int, direction: Direction) -> Any:
    value = known.implicit_default
    if value == {} and isinstance(known.type, StructSchema):
        kind = _class_of(known.type, key, direction)
        made = kind.__new__(kind)
        for inner in known.type.fields:
            setattr(made, inner.name, _default(inner, key, direction))
        return made
    return value
