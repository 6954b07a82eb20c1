"""Colours of what commands print: at a terminal only, and never with NO_COLOR (https://no-color.org) or a dumb terminal."""

from __future__ import annotations

import os
from typing import IO, Any, Final

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def has_colours(stream: IO[Any]) -> bool:
    """Return whether colours may be written to a stream."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def in_colour(text: str, colour: str, *, on: bool) -> str:
    """Return a string in a colour or style of this module, or as it is if not `on`."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if on and text else text
