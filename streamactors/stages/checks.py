"""Checks of operators' arguments; each raises BuildError at the user's line."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

from streamactors.durations import duration_ms
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

F = TypeVar("F", bound=Callable[..., Any])


def function(operator: str, value: F, what: str = "a function") -> F:
    """Return `value` if it can be called."""
    if not callable(value):
        hint = f"; {WITHOUT_A_CALL}" if value is None else ""
        raise BuildError(f"{operator} expects {what}, got {type(value).__name__} {shortened(value, 60)}{hint}")
    return value


WITHOUT_A_CALL: Final = "give the function itself, without a call: fn, not fn()"
"""The way out for `map(print())`: the function was called, and has returned None."""


def is_coroutine_function(fn: Callable[..., Any]) -> bool:
    """Return True if a call returns a coroutine: for coroutine functions, partials of them, objects with an async __call__."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def plain_function(operator: str, value: F, instead: str | None = None) -> F:
    """Return `value` if it can be called and is not a coroutine function."""
    function(operator, value)
    if (getattr(value, "__module__", None) or "").startswith("reactivex."):
        raise BuildError(
            f"{operator} expects a function of an element, got an operator of RxPY; use .rx(rx.map(fn), …)"
        )
    no_coroutine_function(operator, value, f"use {instead} for coroutine functions" if instead else None)
    return value


def no_coroutine_function(operator: str, value: Any, way_out: str | None = None) -> None:
    """Raise BuildError if `value` is a coroutine function."""
    if callable(value) and is_coroutine_function(value):
        name = getattr(value, "__qualname__", repr(value))
        hint = f"; {way_out}" if way_out else ""
        raise BuildError(f"{operator} expects a plain function, got the coroutine function {name}{hint}")


def asyncio_loop(operator: str, value: Any) -> asyncio.AbstractEventLoop | None:
    """Return `value` if it is an asyncio loop that is not closed, or None."""
    if value is None:
        return None
    if not isinstance(value, asyncio.AbstractEventLoop):
        raise BuildError(
            f"{operator}: loop must be an asyncio loop (asyncio.get_running_loop()), got {type(value).__name__} {shortened(value, 60)}"
        )
    if value.is_closed():
        raise BuildError(
            f"{operator}: the loop is closed; build the graph in the loop that runs: asyncio.get_running_loop()"
        )
    return value


def positive(operator: str, name: str, value: int) -> int:
    """Return `value` if it is an integer of at least 1."""
    return at_least(operator, name, value, 1)


def integer(operator: str, name: str, value: int) -> int:
    """Return `value` if it is an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BuildError(f"{operator}: {name} must be an integer, got {type(value).__name__} {shortened(value, 60)}")
    return value


def at_least(operator: str, name: str, value: int, least: int) -> int:
    """Return `value` if it is an integer of at least `least`."""
    if integer(operator, name, value) < least:
        raise BuildError(f"{operator}: {name} must be at least {least}, got {value}")
    return value


def span_ms(operator: str, name: str, value: Any, *, zero: bool = False) -> float:
    """Return a Duration in ms: more than 0, or with `zero` at least 0."""
    try:
        span = duration_ms(value, f"{operator}: {name}")
    except (TypeError, ValueError) as error:
        raise BuildError(str(error)) from None
    if span < 0 or (span == 0 and not zero):
        raise BuildError(
            f"{operator}: {name} must be {'at least' if zero else 'more than'} 0, got {shortened(value, 60)}"
        )
    return span
