"""`consume --format`: kcat's letters, and rpk's %v.

A format becomes one template of bytes and a list of fields, so that a record costs one call per field."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from streamactors.kafka.record import ConsumerRecord

Field: TypeAlias = Callable[["ConsumerRecord", bytes | None], bytes]
"""Returns a field of a record; the second argument is its value as it is shown."""

_LENGTH_OF_NULL: Final = -1


def _length(data: bytes | None) -> int:
    return _LENGTH_OF_NULL if data is None else len(data)


def _headers(record: ConsumerRecord, _: bytes | None) -> bytes:
    return b",".join(b"%b=%b" % (name.encode(), b"NULL" if value is None else value) for name, value in record.headers)


FIELDS: Final[dict[str, Field]] = {
    "t": lambda record, _: record.topic.encode(),
    "p": lambda record, _: b"%d" % record.partition,
    "o": lambda record, _: b"%d" % record.offset,
    "k": lambda record, _: record.key or b"",
    "K": lambda record, _: b"%d" % _length(record.key),
    "s": lambda _, value: value or b"",
    "v": lambda _, value: value or b"",
    "S": lambda _, value: b"%d" % _length(value),
    "V": lambda _, value: b"%d" % _length(value),
    "R": lambda _, value: struct.pack(">i", _length(value)),
    "h": _headers,
    "T": lambda record, _: b"%d" % (_LENGTH_OF_NULL if record.timestamp is None else record.timestamp),
}
HELP: Final = (
    "%t topic, %p partition, %o offset, %k key, %v or %s value, %h headers, %T timestamp in ms, "
    "%K and %S lengths of key and value (-1: null), %R that of the value in 4 bytes, %% a percent sign; "
    r"\n, \t, \r, \e and \xNN"
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "e": b"\x1b", "0": b"\0", "\\": b"\\"}
_PART: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)


class RecordFormat:
    """A format of records. Raises ValueError, naming the part, for a letter or an escape that does not exist."""

    def __init__(self, text: str) -> None:
        template, fields = [], []
        for part in _PART.finditer(text):
            letter, code, escape, plain = part.groups()
            if letter is not None and letter != "%":
                if letter not in FIELDS:
                    raise ValueError(f"{part[0]!r} is no field of a format; it has {HELP}")
                fields.append(FIELDS[letter])
                template.append(b"%b")
                continue
            if escape is not None and escape not in _ESCAPES:
                raise ValueError(rf"{part[0]!r} is no escape of a format; it has \n, \t, \r, \e, \0, \xNN and \\")
            literal = (
                b"%"
                if letter
                else bytes.fromhex(code)
                if code
                else _ESCAPES[escape]
                if escape is not None
                else plain.encode()
            )
            template.append(literal.replace(b"%", b"%%"))
        self._template = b"".join(template)
        self._fields = fields

    def __call__(self, records: Iterable[tuple[ConsumerRecord, bytes | None]]) -> bytes:
        """Return records, each with its value as it is shown, one after the other."""
        template, fields = self._template, self._fields
        return b"".join([template % tuple([field(record, value) for field in fields]) for record, value in records])
