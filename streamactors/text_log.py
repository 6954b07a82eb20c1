"""The log as text, of which no record, name or error can forge a line.

A line of the log begins at the left edge; what continues it is indented, as the stack of an error is. Control characters are escaped, for a terminal
would obey them."""

from __future__ import annotations

import logging
import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_BREAKS: Final = re.compile("[\n\u2028\u2029]")


def printable(text: str) -> str:
    """Return the text with its control characters escaped, all but tab and line feed: a terminal would obey them."""
    return _CONTROL.sub(_escaped, text)


class TextFormatter(logging.Formatter):
    """Formats a record as one line, and indented lines that continue it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return _BREAKS.sub("\n  ", printable(super().format(record)))


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"
