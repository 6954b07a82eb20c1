"""Request and response headers.

A request header has version 2 (with tagged fields) if the request is flexible, otherwise version 1; the client id keeps its
classic form in both. A response header has version 1 (with tagged fields) if the response is flexible, except for ApiVersions,
whose response header always has version 0: its client does not know the broker's versions yet (KIP-511)."""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from streamactors.broker.protocol.api_keys import API_VERSIONS, FIRST_FLEXIBLE, NEVER, is_flexible
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.primitives import INT32, nullable_string, skip_tagged_fields

_START: Final = Struct(">hhih")  # key, version, correlation id, length of the client id
_RESPONSE_START: Final = Struct(">ii")


class RequestHeader(NamedTuple):
    """The header of a request. `end` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_request_header(frame: memoryview) -> tuple[int, int, int, str | None, int]:
    """Read the header of a frame (without its size) into the fields of a RequestHeader. Raises MalformedMessage."""
    try:
        key, version, correlation_id, client_length = _START.unpack_from(frame, 0)
    except error:
        raise MalformedMessage(f"a request of {len(frame)} bytes; a header has at least {_START.size}") from None
    position = _START.size
    client_id = None
    if client_length >= 0:
        end = position + client_length
        if end > len(frame):
            raise MalformedMessage(f"a client id of {client_length} bytes where {len(frame) - position} are left")
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("a client id that is not UTF-8") from None
        position = end
    elif client_length != -1:
        raise MalformedMessage(f"a client id of length {client_length}")
    if version >= FIRST_FLEXIBLE.get(key, NEVER):  # `is_flexible` in place
        # An empty block is by far the most frequent, so it takes no call.
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            position = skip_tagged_fields(frame, position)
    return key, version, correlation_id, client_id, position


def request_frame(key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """Return a whole request frame, as a client sends it."""
    head = Struct(">hhi").pack(key, version, correlation_id) + nullable_string(client_id, compact=False)
    if is_flexible(key, version):
        head += b"\x00"
    return INT32.pack(len(head) + len(body)) + head + body


def response_header_is_flexible(key: int, version: int) -> bool:
    """Whether the response header has tagged fields."""
    return key != API_VERSIONS and is_flexible(key, version)


def response_frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole response frame."""
    if response_header_is_flexible(key, version):
        return _RESPONSE_START.pack(len(body) + 5, correlation_id) + b"\x00" + body
    return _RESPONSE_START.pack(len(body) + 4, correlation_id) + body
