"""Errors of user code: the user's own exception goes on, with a note that names the stage, the element and the line."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any

SHOWN = 120
_PREFIX = "in stage "


def shortened(element: object, limit: int = SHOWN) -> str:
    """Return `repr(element)` cut to `limit` characters; never raises."""
    try:
        text = repr(element)
    except Exception as error:  # noqa: BLE001  # a broken __repr__ must not hide the real error
        return f"<{type(element).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


_NO_ELEMENT = object()


def blame(error: BaseException, stage: str, element: Any = _NO_ELEMENT, function: Any = None) -> BaseException:
    """Add the note to `error` and return it. The first note wins: the innermost stage knows best."""
    if any(note.startswith(_PREFIX) for note in getattr(error, "__notes__", ())):
        return error
    where = _user_line(error, function)
    at = "" if element is _NO_ELEMENT else f", element {shortened(element)}"
    try:
        error.add_note(f"{_PREFIX}{stage}{at}{f' ({where})' if where else ''}")
    except Exception:  # noqa: BLE001  # an exception class that forbids attributes
        return error
    return error


def _user_line(error: BaseException, function: Any) -> str:
    """Return file:line of the user's code: the innermost frame of the traceback that is not this package's."""
    place = ""
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if not _is_ours(tb.tb_frame.f_globals.get("__name__", ""), code):
            place = f"{code.co_filename}:{tb.tb_lineno}"
        tb = tb.tb_next
    if place:
        return place
    own: CodeType | None = getattr(function, "__code__", None)
    return f"{own.co_filename}:{own.co_firstlineno}" if own is not None else getattr(function, "__qualname__", "")


def _is_ours(module: str, code: CodeType) -> bool:
    return code.co_filename.startswith("<streamactors") or (
        module.startswith("streamactors.") and not module.startswith(("streamactors.demo", "streamactors.cli"))
    )


def frame_of(error: BaseException, code: CodeType) -> TracebackType | None:
    """Return the traceback entry of the frame that runs `code`."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code is not code:
        tb = tb.tb_next
    return tb
