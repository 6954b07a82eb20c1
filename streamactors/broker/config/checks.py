"""Checks of setting values. A check has an error message in Kafka's words, and its limits for the docs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Check:
    """A named condition on a value; `complaint` is None when the value holds."""

    def __init__(self, limits: str, complaint: Callable[[Any], str | None]) -> None:
        self.limits: Final = limits
        self.complaint: Final = complaint


def at_least(low: int) -> Check:
    """Accept numbers from `low` up."""
    return Check(f"at least {low}", lambda value: None if value >= low else f"Value must be at least {low}")


def between(low: int, high: int) -> Check:
    """Accept numbers from `low` to `high`, both included."""

    def complaint(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return Check(f"{low} to {high}", complaint)


def one_of(*words: str) -> Check:
    """Accept exactly these words."""
    allowed = ", ".join(words)
    return Check(allowed, lambda value: None if value in words else f"String must be one of: {allowed}")


def each_of(*words: str) -> Check:
    """Accept lists made of these words."""
    allowed = ", ".join(words)

    def complaint(value: tuple[str, ...]) -> str | None:
        return None if all(word in words for word in value) else f"String must be one of: {allowed}"

    return Check(f"list of {allowed}", complaint)


ANYTHING: Final = Check("", lambda value: None)


def _hosts_with_numbers(value: str) -> str | None:
    for entry in filter(None, map(str.strip, value.split(","))):
        host, _, number = entry.rpartition(":")
        if not host or not number.isdecimal():
            return f"{entry!r} is not host:number"
    return None


HOSTS_WITH_NUMBERS: Final = Check("list of host:number", _hosts_with_numbers)


def only(accepted: Any, because: str, known: Check = ANYTHING) -> Check:
    """Accept one value. Other values that Kafka accepts are refused with the reason."""

    def complaint(value: Any) -> str | None:
        return known.complaint(value) or (None if value == accepted else because)

    shown = ",".join(accepted) if isinstance(accepted, tuple) else str(accepted)
    shown = shown.lower() if isinstance(accepted, bool) else shown
    return Check(f"only {shown or 'empty'}: {because}", complaint)
