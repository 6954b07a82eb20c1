"""What passes between instances: a request and its entries, by the codec; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.codec import CodecError, dumps, loads
from streamactors.windows.state.reads import KINDS, StoreEntry, StoreRequest

MOST_REQUEST_BYTES: Final = 64 << 10
MOST_ANSWER_BYTES: Final = 64 << 20
CONTENT: Final = "application/msgpack"
LAG: Final = "Streamactors-Lag"
"""The header of an answer that standby copies may have given: the largest number of changelog entries that a copy still lacks."""


class BadRequest(Exception):
    """A request that cannot be understood."""


def pack_request(request: StoreRequest, *, dirty: bool, local: bool, stale: bool = False) -> bytes:
    """Return the bytes of a request; `local`: the instance must not ask others; `stale`: its standby copies may answer."""
    return dumps([*request, dirty, local, stale])


def unpack_request(data: bytes) -> tuple[StoreRequest, bool, bool, bool]:
    """Return (request, dirty, local, stale). Raises BadRequest."""
    try:
        kind, key, last, first_ms, last_ms, dirty, local, stale = loads(data)
    except (CodecError, TypeError, ValueError) as error:
        raise BadRequest(f"the body is not a request: {error}") from error
    if kind not in KINDS:
        raise BadRequest(f"a store is asked for {kind!r}; ask for one of {', '.join(KINDS)}")
    for time in (first_ms, last_ms):
        if time is not None and (isinstance(time, bool) or not isinstance(time, int)):
            raise BadRequest(f"{time!r} is not a time in ms")
    return StoreRequest(kind, key, last, first_ms, last_ms), bool(dirty), bool(local), bool(stale)


def pack_entries(entries: Sequence[StoreEntry]) -> bytes:
    """Return the bytes of entries. Raises CodecError for a value that cannot be encoded."""
    return dumps([list(entry) for entry in entries])


def unpack_entries(data: bytes) -> list[StoreEntry]:
    """Return the entries. Raises BadRequest."""
    try:
        return [StoreEntry(*fields) for fields in loads(data)]
    except (CodecError, TypeError) as error:
        raise BadRequest(f"the answer is not a list of entries: {error}") from error
