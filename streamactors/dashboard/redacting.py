"""How the page shows the user's data: as what `redact` returns, and not at all if `redact` raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

Redact = Callable[[Any], Any]
"""Returns what is shown instead of a value."""

_log = logging.getLogger("streamactors.dashboard")


def redacted(value: Any, redact: Redact | None, text: Callable[[Any], str]) -> str:
    """Return the text of `redact(value)`. If `redact` or `text` raises, the text names only the type of the error: its message may contain the value."""
    try:
        return text(value if redact is None else redact(value))
    except Exception as error:  # noqa: BLE001  # of the user's `redact`, `__repr__` or `__str__`
        _log.debug("a value could not be shown", exc_info=True)
        return f"not shown: {type(error).__name__}"
