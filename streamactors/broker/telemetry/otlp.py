"""Reads the metrics of a push: OTLP's MetricsData in protocol buffers, with bounds.

Owner: pure functions. Only gauges and sums of numbers are read, because Kafka's clients send nothing else; other kinds, names of no use and points
beyond the bounds are counted. Nothing is copied before it is known to be short. Source: opentelemetry/proto/metrics/v1/metrics.proto, whose field
numbers are the constants below, and the encoding of protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import CorruptMessage

MAX_POINTS: Final = 2_000
"""Points that are read of one push: about 40 ms."""
MAX_ATTRIBUTES: Final = 16
MAX_NAME: Final = 200
MAX_VALUE: Final = 256

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = Struct("<d")
_SFIXED64: Final = Struct("<q")
_DELTA: Final = 1


class Point(NamedTuple):
    """One number. `monotonic`: a sum that only grows. `delta`: the growth since the push before."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    monotonic: bool
    delta: bool


@dataclass(slots=True)
class Push:
    """What was read of a push."""

    points: list[Point]
    dropped: int = 0
    """Metrics of other kinds, and points beyond a bound."""


def read_metrics(data: bytes) -> Push:
    """Return the numbers of a push. Raises CorruptMessage if the bytes are no protocol buffer."""
    push = Push([])
    for resource in _messages(memoryview(data), 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                _read_metric(metric, push)
    return push


def _read_metric(metric: memoryview, push: Push) -> None:
    name, gauge, total = None, None, None
    for number, kind, value in _fields(metric):
        if kind != _BYTES:
            continue
        if number == 1:
            name = _text(value, MAX_NAME)
        elif number == 5:
            gauge = value
        elif number == 7:
            total = value
    found = total if total is not None else gauge
    if not name or found is None:
        push.dropped += 1
        return
    temporality, monotonic = 0, False
    if total is not None:
        for number, kind, value in _fields(total):
            if number == 2 and kind == _VARINT:
                temporality = value
            elif number == 3 and kind == _VARINT:
                monotonic = bool(value)
    for each in _messages(found, 1):
        point = None
        if len(push.points) < MAX_POINTS:
            point = _read_point(each, name, monotonic=monotonic, delta=temporality == _DELTA)
        if point is None:
            push.dropped += 1
        else:
            push.points.append(point)


def _read_point(data: memoryview, name: str, *, monotonic: bool, delta: bool) -> Point | None:
    """Return a point, None if it has no value or too many attributes."""
    number_of: float | None = None
    attributes: dict[str, str] = {}
    for number, kind, value in _fields(data):
        if number == 4 and kind == _FIXED64:
            number_of = _DOUBLE.unpack(value)[0]
        elif number == 6 and kind == _FIXED64:
            number_of = float(_SFIXED64.unpack(value)[0])
        elif number == 7 and kind == _BYTES:
            key, text = _read_attribute(value)
            if key is None or text is None or len(attributes) >= MAX_ATTRIBUTES:
                return None
            attributes[key] = text
    if number_of is None:
        return None
    return Point(name, tuple(sorted(attributes.items())), number_of, monotonic, delta)


def _read_attribute(data: memoryview) -> tuple[str | None, str | None]:
    key, text = None, None
    for number, kind, value in _fields(data):
        if kind == _BYTES and number == 1:
            key = _text(value, MAX_NAME)
        elif kind == _BYTES and number == 2:
            text = _read_value(value)
    return key, text


def _read_value(data: memoryview) -> str | None:
    """Return an attribute's value as a string; None if it is too long, a list or a map."""
    for number, kind, value in _fields(data):
        if number == 1 and kind == _BYTES:
            return _text(value, MAX_VALUE)
        if number == 2 and kind == _VARINT:
            return "true" if value else "false"
        if number == 3 and kind == _VARINT:
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4 and kind == _FIXED64:
            return str(_DOUBLE.unpack(value)[0])
    return None


def _text(data: memoryview, longest: int) -> str | None:
    """Return a string, None if it is longer than `longest` bytes. Raises CorruptMessage if it is not UTF-8."""
    if len(data) > longest:
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptMessage(f"metrics: a string is not UTF-8: {error}") from None


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yield the nested messages with this field number."""
    return (value for number, kind, value in _fields(data) if number == wanted and kind == _BYTES)


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield (field number, wire type, value): an int for a varint, else the bytes. Raises CorruptMessage."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, kind, value
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise CorruptMessage(f"metrics: wire type {kind} at byte {position} is no protocol buffer")
        if size > end - position:
            raise CorruptMessage(f"metrics: a field says it has {size} bytes, {end - position} are left")
        yield tag >> 3, kind, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise CorruptMessage("metrics: a number does not end")
