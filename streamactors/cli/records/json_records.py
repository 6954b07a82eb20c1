"""`produce --json`: the objects that `consume --json` prints, read back into records. Every field that a record has survives the round trip."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, NamedTuple

FIELDS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
_BASE64: Final = "_base64"
_ALLOWED: Final = {*FIELDS, "key_base64", "value_base64"}


class BadLine(ValueError):
    """A line is no record; the message names the field and the way out."""


class JsonRecord(NamedTuple):
    """A record of a line. None: a null key, a tombstone, or what the line does not say."""

    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: list[tuple[str, bytes | None]]


def record_of(line: bytes) -> JsonRecord:
    """Return the record of a line. Raises BadLine."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadLine(f"is not JSON ({error}); without --json each line is a value") from None
    if not isinstance(found, dict):
        raise BadLine(f"is not an object but {_shown(found)}; without --json each line is a value")
    for name in found:
        if name not in _ALLOWED:
            raise BadLine(f"has a field {name!r} that records do not have; the fields are {', '.join(FIELDS)}")
    if "value" not in found and "value_base64" not in found:
        raise BadLine('has no value; a tombstone has "value": null')
    return JsonRecord(
        _bytes(found, "value"),
        _bytes(found, "key"),
        _number(found, "partition"),
        _number(found, "timestamp_ms"),
        _headers(found.get("headers")),
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    text, encoded = found.get(name), found.get(name + _BASE64)
    if text is not None and encoded is not None:
        raise BadLine(f"has both {name} and {name}{_BASE64}; give one of them")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise BadLine(f"has {name}{_BASE64} {_shown(encoded)}, which is not base64") from None
    if text is not None and not isinstance(text, str):
        raise BadLine(f"has {name} {_shown(text)}, which is no string; write its JSON as a string")
    return None if text is None else text.encode(errors="surrogatepass")


def _number(found: dict[str, Any], name: str) -> int | None:
    number = found.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise BadLine(f"has {name} {_shown(number)}, which is no whole number of at least 0")
    return number


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    """Return headers of a list of {"name", "value"}, or of an object of names and values."""
    if found is None:
        return []
    if isinstance(found, dict):
        found = [{"name": name, "value": value} for name, value in found.items()]
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and isinstance(each.get("name"), str) for each in found
    ):
        raise BadLine(f'has headers {_shown(found)}; their form is [{{"name": "source", "value": "sensor-1"}}]')
    return [(each["name"], _bytes(each, "value")) for each in found]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"
