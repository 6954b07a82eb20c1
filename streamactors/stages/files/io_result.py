"""IOResult, and errors that name their file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class IOResult:
    """What was read or written: the number of bytes (of characters, for text), and the path where there is one."""

    count: int
    """Number of bytes, or of characters where strings are read or written."""
    path: str = ""
    """The path of the file; empty where there is none."""


_URL: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")


def checked_path(operator: str, path: Any) -> Path:
    """Return `path` if it is a path of this machine."""
    if not isinstance(path, str | os.PathLike):
        raise BuildError(f"{operator} expects a path, got {type(path).__name__} {shortened(path, 60)}")
    if not os.fspath(path):
        raise BuildError(f"{operator} expects a path, got an empty string")
    if isinstance(path, str) and (url := _URL.match(path)):
        raise BuildError(
            f"{operator} expects a path of this machine, got the URL {shortened(path, 60)}; {_for_url(operator, url[1], path)}"
        )
    return path


def _for_url(operator: str, scheme: str, url: str) -> str:
    """Return how a URL is read or written."""
    if scheme == "file":
        return f"give the path: {url.removeprefix('file://')!r}"
    if operator.startswith("to_"):
        return "Sink.to_objects writes to every store that fsspec knows (the extra `files`)"
    return (
        f"every store that fsspec knows (the extra `files`) can be read like this: Source.from_file_object(lambda: fsspec.open({url!r}).open()), and then "
        ".parse_csv(), .parse_json_lines() or .lines()"
    )


def naming(error: BaseException, path: Path, operator: str) -> BaseException:
    """Return `error`; an OSError that names no file now names `path`, and says what else may be meant for `operator`."""
    if isinstance(error, OSError):
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        return helped(error, path, operator)
    return error


def helped(error: OSError, path: Path, operator: str) -> OSError:
    """Add a note to the error of a file that is not there or is a folder: what may be meant instead. Return the error."""
    name = os.path.abspath(path)
    folder, last = os.path.split(name)
    if isinstance(error, IsADirectoryError):
        if operator.startswith("to_"):
            error.add_note(
                f"{name} is a folder; give the path of a file, such as {os.path.join(os.fspath(path), 'part-0')!r}"
            )
        else:
            error.add_note(
                f"{name} is a folder; to read its files one after the other: Source.from_iterable(sorted(Path({os.fspath(path)!r}).iterdir()))"
                f".flat_map_concat(Source.{operator})"
            )
    elif isinstance(error, FileNotFoundError) and not os.path.isdir(folder):
        error.add_note(f"there is no folder {folder}; the program runs in {os.getcwd()}")
    elif isinstance(error, FileNotFoundError) and (near := get_close_matches(last, os.listdir(folder), n=1)):
        error.add_note(f"did you mean {os.path.join(folder, near[0])}?")
    elif isinstance(error, FileNotFoundError):
        error.add_note(f"{folder} has no file of such a name")
    return error
