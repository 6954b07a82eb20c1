"""Triggers: when Spark begins a batch."""

from __future__ import annotations

from typing import Any

from streamactors.errors import BuildError

Trigger = float | str | None
"""None: as soon as the batch before is done. "available_now": until the input ends. A number: seconds between batches."""


def trigger_of(name: str, given: Any) -> dict[str, Any]:
    """Return what PySpark's `trigger` takes. Raises BuildError naming what was given."""
    if given is None:
        return {}
    if given == "available_now":
        return {"availableNow": True}
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0:
        return {"processingTime": f"{round(given * 1_000)} milliseconds"}
    if isinstance(given, str) and given.split()[:1] and given.split()[0].isdigit():
        return {"processingTime": given}
    raise BuildError(
        f'{name}: trigger must be None, "available_now", seconds or an interval as "5 seconds", got {given!r}'
    )
