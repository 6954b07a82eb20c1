"""FailedElement: what a retried or a validated element becomes when it is given up, and goes to the dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FailedElement:
    """An element for which every attempt has failed."""

    element: Any
    """The element."""
    error: BaseException
    """The error of the last attempt."""
    attempts: int = 1
    """The number of attempts."""
    stage: str = "retry"
    """The operator that has given the element up."""


def has_failed(element: Any) -> bool:
    """True for an element that was given up."""
    return type(element) is FailedElement
