"""Durations in the form of ISO 8601, as Java's Duration writes them. Pure."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,15})D)?(?:T(?:(?P<hours>\d{1,15})H)?(?:(?P<minutes>\d{1,15})M)?(?:(?P<seconds>\d{1,15}(?:\.\d{1,9})?)S)?)?"
)


def iso_duration_ms(text: str) -> int | None:
    """Return the milliseconds of a duration such as P1DT2H, None if the string is not one, or a number is longer than Java reads."""
    found = _DURATION.fullmatch(text.strip().upper())
    if found is None or not any(found.groups()):
        return None
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    return round((((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]) * 1000)
