"""Strings of users and of other processes as plain text: for a terminal, a log line, an answer of one line."""

from __future__ import annotations

import unicodedata


def plain(value: object, most: int = 60) -> str:
    """Return a value as one line without control characters, shortened."""
    text = "".join(c if unicodedata.category(c)[0] != "C" else "�" for c in str(value))
    return text if len(text) <= most else f"{text[: most - 1]}…"
