"""Errors of user code: the user's own exception is passed on, with a note that names the stage, the element and the line."""

from __future__ import annotations

import sysconfig
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
    return shortened_text(text, limit)


def shortened_text(text: str, limit: int) -> str:
    """Return `text` cut to `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


_NO_ELEMENT = object()


def blame(error: BaseException, stage: str, element: Any = _NO_ELEMENT, function: Any = None) -> BaseException:
    """Add the note to `error` and return it. An error that has a note keeps it: the innermost stage is the most precise."""
    if any(note.startswith(_PREFIX) for note in getattr(error, "__notes__", ())):
        return error
    where = user_line(error, function)
    at = "" if element is _NO_ELEMENT else f", element {shortened(element)}"
    try:
        error.add_note(f"{_PREFIX}{stage}{at}{f' ({where})' if where else ''}")
    except Exception:  # noqa: BLE001  # an exception class that forbids attributes
        return error
    return error


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_BESIDE = ("/contextlib.py", "importlib._bootstrap>", "importlib._bootstrap_external>")
"""Library code between the user's code and the failure; it does not show where the failure is."""
_PACKAGES = ("/site-packages/", "/dist-packages/")


def user_line(error: BaseException, function: Any = None) -> str:
    """Return file:line of the user's code: the last frame of the traceback outside this package, the standard library and the installed
    packages. Where there is none: the innermost frame of a library, or the definition of `function`; "" if `function` is of this package."""
    place = library = ""
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        name = code.co_filename
        if not _is_ours(tb.tb_frame.f_globals.get("__name__", ""), code) and not name.endswith(_BESIDE):
            library = f"{name}:{tb.tb_lineno}"
            if not name.startswith((*_LIBRARIES, "<frozen ")) and not any(part in name for part in _PACKAGES):
                place = library
        tb = tb.tb_next
    own: CodeType | None = getattr(function, "__code__", None)
    if not place and own is not None and _is_ours(getattr(function, "__module__", None) or "", own):
        return ""  # neither this package nor what it calls is a line that the user could change
    if place or library:
        return place or library
    return f"{own.co_filename}:{own.co_firstlineno}" if own is not None else getattr(function, "__qualname__", "")


def _is_ours(module: str, code: CodeType) -> bool:
    return code.co_filename.startswith("<streamactors") or (
        module.startswith("streamactors.") and not module.startswith("streamactors.demo")
    )


def frame_of(error: BaseException, code: CodeType) -> TracebackType | None:
    """Return the traceback entry of the frame that runs `code`."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code is not code:
        tb = tb.tb_next
    return tb
