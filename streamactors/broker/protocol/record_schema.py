"""Wire types and schemas of the records that the broker stores: in the metadata log and in the coordinators' topics.

Owner: `metadata/metadata_record.py` and the record files of `group/` and `transaction/`. They annotate the fields of a class with
these types. A type has both encodings of Kafka: classic (int16 and int32 lengths) and flexible (varint lengths plus one, and
tagged fields at the end of each structure). Every length is compared with the remaining bytes, so a damaged record raises
`CorruptRecord` before memory is allocated."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, get_origin, get_type_hints

from streamactors.broker.protocol.primitives import uvarint
from streamactors.errors import StreamActorsError

T = TypeVar("T")

MAX_STRING_BYTES: Final = 32_767


class CorruptRecord(StreamActorsError):
    """A stored record that has no known format, or that contradicts earlier records."""


class Form(NamedTuple):
    """A version, and whether its encoding is flexible."""

    version: int
    flexible: bool


class WireType(NamedTuple, Generic[T]):
    """Appends a value to a buffer, and reads (value, position after it) at a position."""

    write: Callable[[bytearray, T, Form], None]
    read: Callable[[bytes, int, Form], tuple[T, int]]


class Field(NamedTuple):
    """How a structure's field is stored: its type, the versions that have it, and its tag if it is a tagged field."""

    type: WireType[Any]
    since: int = 0
    until: int = 32_767
    tag: int | None = None


def too_long(text: str | None) -> bool:
    """Whether a string is too long to be stored with an int16 length."""
    return text is not None and len(text) > MAX_STRING_BYTES // 4 and len(text.encode()) > MAX_STRING_BYTES


# --- numbers and lengths ---


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it) of an unsigned varint of at most 32 bits."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CorruptRecord(f"a varint without an end before byte {at} of {len(data)}")


def _take(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    end = at + count
    if end > len(data):
        raise CorruptRecord(f"{count} bytes expected at byte {at} of {len(data)}")
    return data[at:end], end


def _fixed(form: str) -> WireType[Any]:
    packer = struct.Struct(form)

    def write(out: bytearray, value: float, _form: Form) -> None:
        out += packer.pack(value)

    def read(data: bytes, at: int, _form: Form) -> tuple[Any, int]:
        raw, end = _take(data, at, packer.size)
        return packer.unpack(raw)[0], end

    return WireType(write, read)


INT8: Final[WireType[int]] = _fixed(">b")
INT16: Final[WireType[int]] = _fixed(">h")
UINT16: Final[WireType[int]] = _fixed(">H")
INT32: Final[WireType[int]] = _fixed(">i")
INT64: Final[WireType[int]] = _fixed(">q")
FLOAT64: Final[WireType[float]] = _fixed(">d")


def _write_length(out: bytearray, length: int, classic: WireType[int], form: Form) -> None:
    """Append a length; -1 is null."""
    if form.flexible:
        out += uvarint(length + 1)
    else:
        classic.write(out, length, form)


def _read_length(data: bytes, at: int, classic: WireType[int], form: Form) -> tuple[int, int]:
    if form.flexible:
        length, at = read_unsigned(data, at)
        return length - 1, at
    return classic.read(data, at, form)


# --- strings and bytes ---


def _sized(classic: WireType[int]) -> WireType[bytes | None]:
    def write(out: bytearray, value: bytes | None, form: Form) -> None:
        _write_length(out, -1 if value is None else len(value), classic, form)
        out += value or b""

    def read(data: bytes, at: int, form: Form) -> tuple[bytes | None, int]:
        length, at = _read_length(data, at, classic, form)
        return (None, at) if length < 0 else _take(data, at, length)

    return WireType(write, read)


def _never_null(nullable: WireType[T | None], what: str) -> WireType[T]:
    def read(data: bytes, at: int, form: Form) -> tuple[T, int]:
        value, end = nullable.read(data, at, form)
        if value is None:
            raise CorruptRecord(f"null at byte {at}, where {what} must be")
        return value, end

    return WireType(nullable.write, read)


_SHORT_BYTES: Final = _sized(INT16)


def _write_text(out: bytearray, value: str | None, form: Form) -> None:
    _SHORT_BYTES.write(out, None if value is None else value.encode(), form)


def _read_text(data: bytes, at: int, form: Form) -> tuple[str | None, int]:
    raw, end = _SHORT_BYTES.read(data, at, form)
    try:
        return None if raw is None else raw.decode(), end
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"the string at byte {at} is not UTF-8") from error


def _read_boolean(data: bytes, at: int, form: Form) -> tuple[bool, int]:
    value, end = INT8.read(data, at, form)
    return bool(value), end


def _read_uuid(data: bytes, at: int, _form: Form) -> tuple[uuid.UUID, int]:
    raw, end = _take(data, at, 16)
    return uuid.UUID(bytes=raw), end


NULLABLE_TEXT: Final = WireType[str | None](_write_text, _read_text)
TEXT: Final[WireType[str]] = _never_null(NULLABLE_TEXT, "a string")
BYTES: Final[WireType[bytes]] = _never_null(_sized(INT32), "bytes")
BOOLEAN: Final = WireType[bool](lambda out, value, form: out.append(value), _read_boolean)
UUID: Final = WireType[uuid.UUID](lambda out, value, form: out.extend(value.bytes), _read_uuid)


def array(item: WireType[T]) -> WireType[Sequence[T] | None]:
    """Return the type of an array of `item`. None is written as null; null is read as an empty array."""

    def write(out: bytearray, values: Sequence[T] | None, form: Form) -> None:
        _write_length(out, -1 if values is None else len(values), INT32, form)
        for value in values or ():
            item.write(out, value, form)

    def read(data: bytes, at: int, form: Form) -> tuple[Sequence[T] | None, int]:
        length, at = _read_length(data, at, INT32, form)
        if length > len(data) - at:  # an item takes a byte at least
            raise CorruptRecord(f"an array of {length} items in {len(data) - at} bytes")
        values = []
        for _ in range(length):
            value, at = item.read(data, at, form)
            values.append(value)
        return tuple(values), at

    return WireType(write, read)


# --- structures ---


def _fields(made: type) -> dict[str, Field]:
    """Return the fields of a class that are annotated with a WireType or a Field, in order."""
    fields = {}
    for name, hint in get_type_hints(made, include_extras=True).items():
        if get_origin(hint) is Annotated:
            stored = hint.__metadata__[0]
            fields[name] = stored if isinstance(stored, Field) else Field(stored)
    return fields


def structure(made: type[T]) -> WireType[T]:
    """Return the type of a structure. `made` is a class whose fields are annotated, in the order of the wire.

    A tagged field is written if it differs from its default in `made`; `lowest_version` says which version that takes."""
    fields = _fields(made)
    plain = [(name, field) for name, field in fields.items() if field.tag is None]
    tagged = {field.tag: (name, field) for name, field in fields.items() if field.tag is not None}
    defaults = {name: each.default for name, each in signature(made).parameters.items()}
    assert all(defaults[name] is not Parameter.empty for name, _ in tagged.values()), made

    def write(out: bytearray, value: T, form: Form) -> None:
        for name, field in plain:
            if field.since <= form.version <= field.until:
                field.type.write(out, getattr(value, name), form)
        if not form.flexible:
            return
        given = [(tag, *each) for tag, each in tagged.items() if getattr(value, each[0]) != defaults[each[0]]]
        out += uvarint(len(given))
        for tag, name, field in given:
            encoded = bytearray()
            field.type.write(encoded, getattr(value, name), form)
            out += uvarint(tag)
            out += uvarint(len(encoded))
            out += encoded

    def read(data: bytes, at: int, form: Form) -> tuple[T, int]:
        values: dict[str, Any] = {}
        for name, field in plain:
            if field.since <= form.version <= field.until:
                values[name], at = field.type.read(data, at, form)
        count, at = read_unsigned(data, at) if form.flexible else (0, at)
        for _ in range(count):
            tag, at = read_unsigned(data, at)
            size, at = read_unsigned(data, at)
            raw, at = _take(data, at, size)
            if tag in tagged:
                name, field = tagged[tag]
                values[name], _ = field.type.read(raw, 0, form)
        return made(**values), at

    return WireType(write, read)


def lowest_version(value: Any, at_least: int) -> int:
    """Return the lowest version from `at_least` that has all tagged fields of `value` which differ from their defaults."""
    found = at_least
    for name, since, default in _tagged_later(value.__class__):
        if since > found and getattr(value, name) != default:
            found = since
    return found


@cache
def _tagged_later(made: Any) -> tuple[tuple[str, int, Any], ...]:
    """Return (name, first version, default) of the tagged fields of a class that version 0 does not have."""
    parameters = signature(made).parameters
    return tuple(
        (name, field.since, parameters[name].default)
        for name, field in _fields(made).items()
        if field.tag is not None and field.since
    )


class Versioned(Generic[T]):
    """A structure with its version before it: the form of keys and values in the coordinators' topics."""

    def __init__(self, what: str, type_: WireType[T], *, highest: int, flexible_since: int = 32_767) -> None:
        self._what = what
        self._type = type_
        self._highest = highest
        self._flexible_since = flexible_since

    def encode(self, value: T, version: int) -> bytes:
        """Return the bytes of a value."""
        form = Form(version, version >= self._flexible_since)
        out = bytearray()
        INT16.write(out, version, form)
        self._type.write(out, value, form)
        return bytes(out)

    def decode(self, data: bytes, name: str = "") -> T:
        """Return the decoded value. Raises CorruptRecord, also for an unknown version; `name` is added to its message."""
        version, at = INT16.read(data, 0, Form(0, False))
        if not 0 <= version <= self._highest:
            raise CorruptRecord(
                f"version {version} of {self._what}{name and f' {name!r}'} is unknown; versions 0 to {self._highest} can be read"
            )
        return self._type.read(data, at, Form(version, version >= self._flexible_since))[0]
