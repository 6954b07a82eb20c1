"""Checks of what users hand to operators; each raises BuildError at the line that wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

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
