"""Reads `.properties` files, the format of server.properties.

Rules of java.util.Properties: `#` and `!` begin comments, `=`, `:` or white space ends the name, a backslash escapes
and joins lines, later lines win.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamactors.broker.config.setting import InvalidSetting

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{0,4}|.)", re.DOTALL)
_WHITE: Final = " \t\f"
_NAME: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
MAX_BYTES: Final = 1 << 20


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings in a file. Raises InvalidSetting, which names the file, if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InvalidSetting(f"{path}: larger than {MAX_BYTES} bytes, so it is not a settings file", name="config")
        return parse_properties(content.decode("utf-8-sig"))  # some editors begin a file with a byte order mark
    except OSError as error:
        raise InvalidSetting(f"{path}: {error.strerror}; give a server.properties file", name="config") from error
    except UnicodeDecodeError as error:
        raise InvalidSetting(
            f"{path}: not text (byte {error.start}); give a server.properties file", name="config"
        ) from error
    except ValueError as error:
        raise InvalidSetting(f"{path}: {error}", name="config") from error


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a properties string. Raises ValueError for an invalid escape."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        name = _NAME.match(line).group()  # type: ignore[union-attr]  # matches the empty string too
        rest = line[len(name) :].lstrip(_WHITE)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_WHITE)
        settings[_unescape(name)] = _unescape(rest)
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in _LINE_END.split(text):
        stripped = line.lstrip(_WHITE)
        if not joined and (not stripped or stripped[0] in "#!"):
            continue
        joined += stripped
        trailing = len(joined) - len(joined.rstrip("\\"))
        if trailing % 2:  # an odd number of backslashes: the last one joins the next line
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ValueError(
                f"\\{code}: this escape has four hexadecimal digits; a backslash of a path is written twice"
            )
        return chr(int(code[1:], 16))

    return _ESCAPE.sub(replace, text)
