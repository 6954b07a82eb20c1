"""Serdes: bytes to values and back, by name, by a class, or by two functions.

The stream calls a serde; a record that makes it raise becomes a dead letter, or fails the stream."""

from __future__ import annotations

import importlib
import json
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.codec import dumps, loads
from streamactors.errors import BuildError
from streamactors.kafka.client.schema_serdes import context_of, needs_topic
from streamactors.kafka.errors import RecordError
from streamactors.kafka.producer_record import ProducerRecord, checked_record
from streamactors.kafka.serdes.canonical_json import canonical_json
from streamactors.kafka.serdes.typed_records import functions_of_class
from streamactors.stages.checks import no_coroutine_function


@dataclass(frozen=True)
class Serde:
    """Two functions; neither is called for None, which is a missing key or a tombstone."""

    name: str
    """The name of the serde in errors."""
    serialize: Callable[..., bytes]
    """Returns the bytes of a value."""
    deserialize: Callable[..., Any]
    """Returns the value of bytes."""

    @staticmethod
    def of(
        serialize: Callable[..., Any] | None = None,
        deserialize: Callable[..., Any] | None = None,
        name: str = "custom",
    ) -> Serde:
        """Return a serde of two functions, or of a serializer and a deserializer of confluent-kafka (Avro, Protobuf, JSON schema).

        A reader needs only `deserialize`, a writer only `serialize`."""
        for which, given in (("serialize", serialize), ("deserialize", deserialize)):
            if given is not None and not callable(given):
                raise BuildError(f"Serde.of: {which} must be a function, got {type(given).__name__}")
            no_coroutine_function(f"Serde.of: {which}", given)
        return Serde(name, serialize or _absent(name, "serialize"), deserialize or _absent(name, "deserialize"))

    def for_topic(self, topic: str, *, is_key: bool) -> Serde:
        """Return this serde with functions of one argument: confluent-kafka's are called with the topic and the field, too."""
        serialize, deserialize = self.serialize, self.deserialize
        if not needs_topic(serialize) and not needs_topic(deserialize):
            return self
        context = context_of(topic, is_key)
        return Serde(
            self.name,
            serialize=(lambda value: serialize(value, context)) if needs_topic(serialize) else serialize,
            deserialize=(lambda data: deserialize(data, context)) if needs_topic(deserialize) else deserialize,
        )


def _absent(name: str, which: str) -> Callable[[Any], Any]:
    def absent(_: Any) -> Any:
        raise TypeError(f"the serde {name!r} has no {which}; give Serde.of(serialize, deserialize)")

    return absent


def _same(data: bytes) -> bytes:
    return data


def _integer(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _as_integer(data: bytes) -> int:
    if len(data) not in (4, 8):
        raise ValueError(f"an integer has 4 or 8 bytes, got {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def _fixed(name: str, size: int) -> Serde:
    """Return the serde of integers of `size` bytes, as Kafka's Integer and Long serializers write them."""

    def serialize(value: int) -> bytes:
        return value.to_bytes(size, "big", signed=True)

    def deserialize(data: bytes) -> int:
        if len(data) != size:
            raise ValueError(f"an {name} has {size} bytes, got {len(data)}")
        return int.from_bytes(data, "big", signed=True)

    return Serde(name, serialize, deserialize)


BYTES: Final = Serde("bytes", _same, _same)
STRING: Final = Serde("string", str.encode, bytes.decode)
INTEGER: Final = Serde("integer", _integer, _as_integer)  # reads what Kafka's Integer and Long serializers write
INT32: Final = _fixed("int32", 4)
INT64: Final = _fixed("int64", 8)
_scan: Final = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _scanned(data: bytes) -> Any:
    """Parse UTF-8 that is one value with no space around it. Raises ValueError, TypeError or StopIteration for everything else."""
    text = str(data, "utf-8")
    value, end = _scan(text, 0)
    if end != len(text):
        raise ValueError
    return value


def _quick_decoder() -> Callable[[bytes], Any]:
    try:
        decode: Callable[[bytes], Any] = importlib.import_module("msgspec").json.decode
    except ImportError:
        return _scanned
    return decode


_parsed: Final = _quick_decoder()


def parsed_json(data: bytes) -> Any:
    """Return what `json.loads` returns for bytes, or raise what it raises.

    msgspec parses the bytes where it is installed. It returns the value that `json.loads` returns, or raises an error. It raises for some
    bytes that `json.loads` accepts (NaN, lone surrogates, UTF-16), so `json.loads` then parses the same bytes."""
    try:
        return _parsed(data)
    except (ValueError, TypeError, StopIteration, RecursionError):
        pass
    return json.loads(data)


def _encoder() -> Callable[[Any, int], Iterable[str]] | None:
    make = json.encoder.c_make_encoder  # type: ignore[attr-defined]  # None without the module in C
    if make is None:
        return None
    default = json.JSONEncoder().default  # raises TypeError, naming the type
    found: Callable[[Any, int], Iterable[str]] = make(
        None, default, json.encoder.encode_basestring, None, ":", ",", False, False, True
    )
    return found


_PIECES: Final = _encoder()


def json_bytes(value: Any) -> bytes:
    """Return compact JSON in UTF-8, as most other writers do, so that equal keys have equal bytes: no spaces, no escapes but those that JSON demands.

    `json.dumps` makes an encoder in C for each call, which takes two thirds of its time for a small value."""
    if _PIECES is None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    else:
        text = "".join(_PIECES(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        return json.dumps(value, separators=(",", ":")).encode()


JSON: Final = Serde("json", json_bytes, parsed_json)
CANONICAL_JSON: Final = Serde("canonical-json", canonical_json, parsed_json)
MSGPACK: Final = Serde("msgpack", dumps, loads)
SERDES: Final = {serde.name: serde for serde in (BYTES, STRING, INTEGER, INT32, INT64, JSON, CANONICAL_JSON, MSGPACK)}


EXACT: Final = frozenset({BYTES, STRING, INT32, INT64})
"""The serdes that write the same bytes that they have read."""


def serde_of(where: str, given: Any) -> Serde:
    """Return a serde, the one of that name, or that of a class. Raises BuildError naming what was given."""
    if isinstance(given, str) and given in SERDES:
        return SERDES[given]
    if isinstance(given, Serde):
        return given
    functions = functions_of_class(given) if isinstance(given, type) else None
    if functions is not None:
        return Serde(given.__qualname__, *functions)
    raise BuildError(f"{where} must be a Serde, {_CHOICES}, got {given!r}")


_CHOICES: Final = f"one of {', '.join(sorted(SERDES))}, or a dataclass, msgspec struct or pydantic model"


def reading_serde(where: str, given: Any) -> Serde:
    """As `serde_of`; also of a function from bytes. None: bytes."""
    if given is None:
        return BYTES
    if callable(given) and (not isinstance(given, type) or functions_of_class(given) is None):
        return Serde.of(deserialize=given)
    return serde_of(where, given)


def writing_function(where: str, key: Any, value: Any) -> Callable[[Any], ProducerRecord] | None:
    """Return the function that serialises the key and the value of a ProducerRecord; None when both are None: they are bytes or text."""
    if key is None and value is None:
        return None
    keys, values = (
        None if given is None else _writing_serde(f"{where}: {name}", given)
        for name, given in (("key", key), ("value", value))
    )
    by_topic: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def write(element: Any) -> ProducerRecord:
        record = checked_record(element)
        topic = record.topic
        functions = by_topic.get(topic)
        if functions is None:
            functions = by_topic[topic] = (
                _same if keys is None else keys.for_topic(topic, is_key=True).serialize,
                _same if values is None else values.for_topic(topic, is_key=False).serialize,
            )
        part: Any = "key"
        try:
            raw_key = None if record.key is None else functions[0](record.key)
            part = "value"
            raw_value = None if record.value is None else functions[1](record.value)
        except Exception as error:
            serde: Any = keys if part == "key" else values
            given = record.key if part == "key" else record.value
            raise not_serialised(topic, part, given, serde.name, error) from error
        return record._replace(key=raw_key, value=raw_value)

    return write


def not_serialised(topic: str, part: str, value: Any, serde: str, error: Exception) -> RecordError:
    """Return the error of a serde that has raised `error` for a value. `part`: "key" or "value"."""
    try:
        shown = f"{value!r:.80}"
    except RecursionError:
        shown = reprlib.repr(value)
    return RecordError(
        f"topic {topic}: the {part} cannot be serialised as {serde}: {error}; it is {shown} ({type(value).__name__}): convert it before, "
        f"or give {part}= another serde, {_CHOICES}"
    )


def _writing_serde(where: str, given: Any) -> Serde:
    if callable(given) and not isinstance(given, type):
        return Serde.of(serialize=given, name=getattr(given, "__name__", type(given).__name__))
    return serde_of(where, given)
