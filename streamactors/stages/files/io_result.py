"""IOResult, and errors that name their file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class IOResult:
    """What was read or written: the number of bytes (of characters, for text), and the path where there is one."""

    count: int
    path: str = ""


def checked_path(operator: str, path: Any) -> Path:
    """Return `path` if it is a path."""
    if not isinstance(path, str | os.PathLike):
        raise BuildError(f"{operator} expects a path, got {type(path).__name__} {shortened(path, 60)}")
    return path


def naming(error: BaseException, path: Path) -> BaseException:
    """Return `error`; an OSError that names no file now names `path`."""
    if isinstance(error, OSError) and error.filename is None and error.errno is not None:
        error.filename = os.fspath(path)
    return error
