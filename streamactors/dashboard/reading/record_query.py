"""What is searched for in a topic: a part of the key, of the value, or a place in a JSON value, and a range of time. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

MOST_HITS: Final = 1_000
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]")
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """`key` and `value` are parts of the text; with `path` (`a.b[0]`, of a JSON value) the value there is `value`, or is there at all. `from_ms`, `to_ms`:
    of the timestamp, `to_ms` excluded."""

    topic: str
    key: str = ""
    value: str = ""
    path: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 100

    def matches(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> bool:
        """Return whether a record is a hit."""
        if self.from_ms is not None and timestamp_ms < self.from_ms:
            return False
        if self.to_ms is not None and timestamp_ms >= self.to_ms:
            return False
        if self.key and self.key not in as_text(key):
            return False
        if not self.path:
            return not self.value or self.value in as_text(value)
        found = at_path(value, self.path)
        return found is not _MISSING and (
            not self.value or self.value == (found if isinstance(found, str) else json.dumps(found))
        )


def at_path(value: bytes | None, path: str) -> Any:
    """Return what a JSON value has at a path; a private mark if it is no JSON or has nothing there."""
    try:
        here = json.loads(value or b"")
    except (ValueError, RecursionError):
        return _MISSING
    for name, index in _STEP.findall(path.removeprefix("$")):
        if name and isinstance(here, dict) and name in here:
            here = here[name]
        elif index and isinstance(here, list) and int(index) < len(here):
            here = here[int(index)]
        else:
            return _MISSING
    return here


def as_text(data: bytes | None) -> str:
    """Return bytes as text; what is not UTF-8 is escaped."""
    return "" if data is None else data.decode("utf-8", "backslashreplace")
