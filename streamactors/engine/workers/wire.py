"""The frames between the two sides of an island in a worker process, and errors as plain values.

    to the worker     BEGIN, then CHUNK, MARK, SIGNAL, TRACE, END, FAILURE for its input; CREDIT, CANCEL for its output; LOOK
    from the worker   READY or CANNOT_BEGIN, then CHUNK, MARK, SIGNAL, END, FAILURE for its output; CREDIT, CANCEL for its input; LOOKED

`count` is a number of elements. `number` is that of a mark: positions and signals stay in the parent, which numbers them; the worker's marks carry
these numbers, and where one comes out, the parent's marks up to it pass. A CHUNK with a number has that mark right after it.
A LOOK names the function whose answer LOOKED has (`looks.py`).
A TRACE has the context of the sampled record from which the elements before the mark of its number stem.

An exception crosses as its name and text. An exception of Python or of this package is raised again; any other becomes a StageFailed with that text."""

from __future__ import annotations

import builtins
from typing import Any, Final

import streamactors.codec
import streamactors.errors
from streamactors.actors.workers.chunks import encode
from streamactors.actors.workers.frames import Buffer, header
from streamactors.codec import CodecError, dumps, loads
from streamactors.engine.island.causes import NO_MORE_ELEMENTS, STAGE_COMPLETED
from streamactors.errors import StageFailed

CANNOT_BEGIN: Final = 1  # the same as in actors/workers/child.py
READY, BEGIN, CHUNK, MARK, SIGNAL, CREDIT, END, FAILURE, CANCEL, TRACE, LOOK, LOOKED = range(2, 14)

_CAUSES: Final = {"no more elements": NO_MORE_ELEMENTS, "completed": STAGE_COMPLETED}
_HOMES: Final = {
    "builtins": builtins,
    "streamactors.errors": streamactors.errors,
    "streamactors.codec": streamactors.codec,
}
"""The modules whose exceptions are rebuilt from their text."""


def frame_of(kind: int, buffers: list[Buffer], count: int = 0, number: int = 0) -> list[Buffer]:
    """Return a frame as buffers."""
    return [header(kind, sum(memoryview(buffer).nbytes for buffer in buffers), count, number), *buffers]


def described(error: BaseException) -> bytes:
    """Return an exception, or the cause of a cancellation, as bytes."""
    for name, cause in _CAUSES.items():
        if error is cause:
            return dumps({"cause": name})
    kind = type(error)
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001  # a broken __str__ must not hide that something failed
        text = f"(its text raised {type(broken).__name__})"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return dumps(
        {
            "type": f"{kind.__module__}.{kind.__qualname__}",
            "text": _encodable(text),
            "notes": list(map(_encodable, notes)),
        }
    )


def made_again(data: memoryview) -> BaseException:
    """Return the exception or cause that `described` wrote."""
    told: dict[str, Any] = loads(data)
    if "cause" in told:
        return _CAUSES[told["cause"]]
    module, _, name = told["type"].rpartition(".")
    home = _HOMES.get(module)
    kind = getattr(home, name, None)
    error: BaseException | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(told["text"])
        except Exception:  # noqa: BLE001  # a UnicodeDecodeError needs more than its text
            error = None
    if error is None:
        error = StageFailed(f"{told['type']}: {told['text']}")
    for note in told["notes"]:
        error.add_note(note)
    return error


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def encodable_prefix(chunk: list[Any]) -> list[Any]:
    """Return the elements of a chunk before the first one that cannot be encoded."""
    for i, element in enumerate(chunk):
        try:
            encode([element])
        except CodecError:
            return chunk[:i]
    return chunk


def refused(error: CodecError, what: str, verb: str) -> CodecError:
    """Return the error of elements that cannot cross the process boundary."""
    reason = str(error).split(";")[0]
    return CodecError(
        f"{what} cannot {verb} the worker process: {reason}; None, bool, int, float, str, bytes, bytearray, list, tuple, dict, datetime, Decimal, NumPy "
        "and Arrow arrays can: map the elements to one of them before the boundary"
    )
