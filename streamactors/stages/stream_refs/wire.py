"""The frames of a stream ref: a length of 4 bytes (big-endian) and a msgpack array that begins with its kind. Nothing is ever unpickled.

HELLO version, role, token → WELCOME or REFUSED why. Receiver: DEMAND elements asked for since the start, CANCEL why (None: wants no more), BYE.
Sender: ELEMENTS bytes of the codec, COMPLETE, FAIL why; where traces are installed also TRACE context state: the next elements stem from a
sampled record with this trace context. Both: ALIVE. BYE answers COMPLETE when everything has been taken."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any, Final

import msgpack

from streamactors import codec
from streamactors.errors import StreamRefError

VERSION: Final = 1
HELLO, WELCOME, REFUSED, DEMAND, ELEMENTS, COMPLETE, FAIL, CANCEL, BYE, ALIVE, TRACE = range(11)
FRAME_BYTES: Final = 4 << 20
"""The longest frame. A longer length is refused before anything is read."""

_LONGEST_WHY: Final = 2_000
_LENGTH: Final = struct.Struct(">I")
_FIELDS: Final[dict[int, tuple[type, ...]]] = {
    HELLO: (int, str, bytes),
    WELCOME: (),
    REFUSED: (str,),
    DEMAND: (int,),
    ELEMENTS: (bytes,),
    COMPLETE: (),
    FAIL: (str,),
    BYE: (),
    ALIVE: (),
    TRACE: (bytes, str),
}


def frame(kind: int, *fields: Any) -> bytes:
    """Return the bytes of a frame."""
    body: bytes = msgpack.packb([kind, *fields])
    return _LENGTH.pack(len(body)) + body


def why(error: BaseException) -> str:
    """Return the text of an error for the other end."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_WHY]


async def read_frame(reader: asyncio.StreamReader, most: int = FRAME_BYTES) -> list[Any]:
    """Return the next frame. Raises StreamRefError for bytes that are not a frame, IncompleteReadError at the end of the connection."""
    (size,) = _LENGTH.unpack(await reader.readexactly(4))
    if size > most:
        raise StreamRefError(f"a frame of {size} bytes came, {most} are allowed; is the other end a stream ref?")
    return checked(await reader.readexactly(size))


def checked(body: bytes) -> list[Any]:
    """Return the frame that `body` holds. Raises StreamRefError when its kind or its fields are unknown."""
    try:
        fields = msgpack.unpackb(body)
    except Exception as error:
        raise StreamRefError(f"the other end sent bytes that are not a frame: {body[:20]!r}") from error
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise StreamRefError(f"the other end sent bytes that are not a frame: {body[:20]!r}")
    kind, *rest = fields
    if kind == CANCEL:
        known = len(rest) == 1 and (rest[0] is None or isinstance(rest[0], str))
    else:
        types = _FIELDS.get(kind)
        known = types is not None and tuple(map(type, rest)) == types
    if not known:
        raise StreamRefError(f"the other end sent a frame of an unknown form, kind {kind} with {len(rest)} fields")
    return fields


def frames_of(elements: list[Any]) -> Iterator[bytes]:
    """Yield the frames of elements, none longer than FRAME_BYTES. Raises CodecError for a type that the codec refuses, StreamRefError for an
    element that is too long."""
    data = codec.dumps(elements)
    if len(data) + 64 <= FRAME_BYTES:
        yield frame(ELEMENTS, data)
    elif len(elements) == 1:
        raise StreamRefError(
            f"an element has {len(data)} bytes, a frame of a stream ref holds {FRAME_BYTES}; send parts of it, or a reference to it"
        )
    else:
        half = len(elements) // 2
        yield from frames_of(elements[:half])
        yield from frames_of(elements[half:])


def elements_of(data: bytes) -> list[Any]:
    """Return the elements of an ELEMENTS frame."""
    elements = codec.loads(data)
    if not isinstance(elements, list) or not elements:
        raise StreamRefError("the other end sent a frame of elements without elements")
    return elements
