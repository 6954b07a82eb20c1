"""Encodes messages from dictionaries.

The first use compiles an encoder from a schema: a list of (name, writer, default) per struct. A missing field takes Kafka's default,
a field that this version does not have is dropped, and a field that no version has is a MessageError. With a dataclass per version, handlers
would choose between up to thirteen classes, and building one would cost more than encoding it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from struct import Struct, error
from typing import Any, Final

from streamactors.broker.protocol.errors import MessageError
from streamactors.broker.protocol.primitives import INT16, INT32, array_length, uvarint
from streamactors.broker.protocol.schema import load_struct, newest_field
from streamactors.broker.protocol.structures import NUMBERS, Direction, FieldSchema, StructSchema

Body = Mapping[str, Any]
Writer = Callable[[bytearray, Any], None]

_NO_UUID: Final = bytes(16)
_LONGEST_ERROR_BYTES: Final = 2_000


@cache
def encoder(key: int, version: int, direction: Direction) -> Callable[[Body], bytes]:
    """Return a function that encodes a dictionary as this message."""
    write = _struct_writer(load_struct(key, version, direction), key, direction)

    def encode(body: Body) -> bytes:
        out = bytearray()
        write(out, body)
        return bytes(out)

    return encode


@cache
def _struct_writer(schema: StructSchema, key: int, direction: Direction) -> Writer:
    plain = [_bound(known, schema, key, direction) for known in schema.fields if known.tag is None]
    tagged = sorted(
        (known.tag, *_bound(known, schema, key, direction)) for known in schema.fields if known.tag is not None
    )
    names = frozenset(known.name for known in schema.fields)
    flexible = schema.flexible

    def write(out: bytearray, body: Body) -> None:
        for name, write_field, default in plain:
            value = body.get(name, default)
            try:
                write_field(out, value)
            except (error, TypeError, AttributeError, ValueError) as cause:
                if isinstance(cause, MessageError):
                    raise
                raise MessageError(f"{schema.name}.{name} cannot be {value!r}: {cause}") from cause
        if flexible:
            _write_tagged(out, body, tagged)
        if not names.issuperset(body):
            _check_names(schema, body, key, direction)

    return write


def _write_tagged(out: bytearray, body: Body, tagged: Sequence[tuple[int, str, Writer, Any]]) -> None:
    present = [entry for entry in tagged if entry[1] in body and not _is(body[entry[1]], entry[3])] if tagged else ()
    out += uvarint(len(present))
    for tag, name, write_field, _ in present:
        content = bytearray()
        write_field(content, body[name])
        out += uvarint(tag) + uvarint(len(content)) + content


def _is(value: Any, default: Any) -> bool:
    """Whether a tagged field is left out: like Apache Kafka, the encoder writes none that has its default value."""
    return bool(value == default or (default == () and value is not None and not value))


def _check_names(schema: StructSchema, body: Body, key: int, direction: Direction) -> None:
    unknown = [name for name in body if newest_field(key, direction, schema.name, name) is None]
    if unknown:
        raise MessageError(f"{schema.name} has no field {', '.join(sorted(unknown))} in any version")


def _bound(known: FieldSchema, schema: StructSchema, key: int, direction: Direction) -> tuple[str, Writer, Any]:
    return known.name, _field_writer(known, schema, key, direction), known.implicit_default


def _field_writer(known: FieldSchema, schema: StructSchema, key: int, direction: Direction) -> Writer:
    compact = schema.flexible
    if known.name.endswith("error_message"):
        return _bytes_writer(INT16, known.nullable, compact, encode=_brief)
    if isinstance(known.type, StructSchema):
        item = _struct_writer(known.type, key, direction)
        if known.nullable and not known.is_array:
            return _nullable_struct(item)
    else:
        item = _primitive_writer(known.type, known.nullable and not known.is_array, compact)
    return _array_writer(item, known.nullable, compact) if known.is_array else item


def _nullable_struct(write: Writer) -> Writer:
    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            write(out, value)

    return write_nullable


def _array_writer(write: Writer, nullable: bool, compact: bool) -> Writer:
    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise TypeError("null where an array must be")
            out += array_length(-1, compact)
            return
        out += array_length(len(values), compact)
        for value in values:
            write(out, value)

    return write_array


def _primitive_writer(kind: str, nullable: bool, compact: bool) -> Writer:
    if kind == "string":
        return _bytes_writer(INT16, nullable, compact, encode=str.encode)
    if kind == "bytes":
        return _bytes_writer(INT32, nullable, compact, encode=memoryview)
    if kind == "uuid":
        return _write_uuid
    pack = Struct(f">{NUMBERS[kind]}").pack

    def write_number(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_number


def _bytes_writer(length: Struct, nullable: bool, compact: bool, encode: Callable[[Any], Any]) -> Writer:
    def write_bytes(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable:
                raise TypeError("null where a value must be")
            out += b"\x00" if compact else length.pack(-1)
            return
        encoded = encode(value)
        out += uvarint(len(encoded) + 1) if compact else length.pack(len(encoded))
        out += encoded

    return write_bytes


def _brief(text: str) -> bytes:
    """Encode an error message, shortened: it may quote a name that is too long for an answer."""
    encoded = text.encode()
    if len(encoded) <= _LONGEST_ERROR_BYTES:
        return encoded
    return encoded[:_LONGEST_ERROR_BYTES].decode(errors="ignore").encode() + b" ..."


def _write_uuid(out: bytearray, value: uuid.UUID | None) -> None:
    out += _NO_UUID if value is None else value.bytes
