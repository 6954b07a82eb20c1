"""Serdes: bytes to values and back, by name or by two functions.

A serde of confluent-kafka (Avro, Protobuf, JSON schema) is used by its functions: `Serde.of(to_bytes, from_bytes)`; they are called in the stream,
and what they raise goes to the dead letters or fails the stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.windows.codec import dumps, loads


@dataclass(frozen=True)
class Serde:
    """Two functions; neither is called for None, which is a missing key or a tombstone."""

    name: str
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]

    @staticmethod
    def of(serialize: Callable[[Any], bytes], deserialize: Callable[[bytes], Any], name: str = "custom") -> Serde:
        """Return a serde of two functions."""
        return Serde(name, serialize, deserialize)


def _same(data: bytes) -> bytes:
    return data


def _integer(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _as_integer(data: bytes) -> int:
    if len(data) not in (4, 8):
        raise ValueError(f"an integer has 4 or 8 bytes, got {len(data)}")
    return int.from_bytes(data, "big", signed=True)


BYTES: Final = Serde("bytes", _same, _same)
STRING: Final = Serde("string", str.encode, bytes.decode)
INTEGER: Final = Serde("integer", _integer, _as_integer)  # as Kafka's Long and Integer serializers
JSON: Final = Serde("json", lambda value: json.dumps(value).encode(), json.loads)
MSGPACK: Final = Serde("msgpack", dumps, loads)
SERDES: Final = {serde.name: serde for serde in (BYTES, STRING, INTEGER, JSON, MSGPACK)}


def serde_of(where: str, given: Any) -> Serde:
    """Return a serde, or the one of that name. Raises BuildError naming what was given."""
    if isinstance(given, str) and given in SERDES:
        return SERDES[given]
    if isinstance(given, Serde):
        return given
    raise BuildError(f"{where} must be a Serde or one of {', '.join(sorted(SERDES))}, got {given!r}")


def deserializer(where: str, given: Any) -> Callable[[bytes], Any]:
    """Return the function of a serde, a serde's name, or a function. Raises BuildError naming what was given."""
    if given is None:
        return _same
    if isinstance(given, str) and given in SERDES:
        return SERDES[given].deserialize
    if isinstance(given, Serde):
        return given.deserialize
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise BuildError(f"{where} must be a Serde, one of {', '.join(sorted(SERDES))}, or a function, got {given!r}")
