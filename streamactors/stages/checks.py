"""Checks of what users hand to operators; each raises BuildError at the line that wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from streamactors.clock import duration_ms
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

F = TypeVar("F", bound=Callable[..., Any])


def function(operator: str, value: F, what: str = "a function") -> F:
    """Return `value` if it can be called."""
    if not callable(value):
        raise BuildError(f"{operator} expects {what}, got {type(value).__name__} {shortened(value, 60)}")
    return value


def plain_function(operator: str, value: F, instead: str | None = None) -> F:
    """Return `value` if it can be called and is no coroutine function."""
    function(operator, value)
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        name = getattr(value, "__qualname__", repr(value))
        way_out = f"; use {instead} for coroutine functions" if instead else ""
        raise BuildError(f"{operator} expects a plain function, got the coroutine function {name}{way_out}")
    return value


def positive(operator: str, name: str, value: int) -> int:
    """Return `value` if it is an integer of at least 1."""
    return at_least(operator, name, value, 1)


def at_least(operator: str, name: str, value: int, least: int) -> int:
    """Return `value` if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BuildError(f"{operator}: {name} must be an integer, got {type(value).__name__} {shortened(value, 60)}")
    if value < least:
        raise BuildError(f"{operator}: {name} must be at least {least}, got {value}")
    return value


def span_ms(operator: str, name: str, value: Any, *, zero: bool = False) -> float:
    """Return a time span in ms: a number of ms, a timedelta, or a text such as "1.5s"; more than 0, or with `zero` at least 0."""
    try:
        span = duration_ms(value)
    except (TypeError, ValueError) as error:
        raise BuildError(f"{operator}: {name}: {error}") from None
    if span < 0 or (span == 0 and not zero):
        raise BuildError(
            f"{operator}: {name} must be {'at least' if zero else 'more than'} 0, got {shortened(value, 60)}"
        )
    return span
