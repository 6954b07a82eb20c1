"""Functions on elements turned into functions on pairs (element, context)."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

from streamactors.engine.awaiting import can_be_awaited
from streamactors.stages.calls import is_coroutine_function


def on_element(fn: Callable[[Any], Any]) -> Callable[[tuple[Any, Any]], tuple[Any, Any]]:
    """Return the function that applies `fn` to the element and keeps the context."""
    return lambda pair: (fn(pair[0]), pair[1])


def first_of(fn: Callable[[Any], Any] | None) -> Callable[[tuple[Any, Any]], Any]:
    """Return the function that applies `fn` to the element alone; without one, that returns the element."""
    if fn is None:
        return lambda pair: pair[0]
    return lambda pair: fn(pair[0])


def async_on_element(fn: Callable[[Any], Any]) -> Callable[[tuple[Any, Any]], Any]:
    """As `on_element`, for coroutine functions, and for plain ones that may return something to await."""
    if is_coroutine_function(fn):

        async def awaited(pair: tuple[Any, Any]) -> tuple[Any, Any]:
            return await fn(pair[0]), pair[1]

        return awaited

    def called(pair: tuple[Any, Any]) -> Any:
        value = fn(pair[0])
        return _beside(value, pair[1]) if can_be_awaited(value) else (value, pair[1])

    return called


async def _beside(awaitable: Any, context: Any) -> tuple[Any, Any]:
    if isinstance(awaitable, concurrent.futures.Future):
        awaitable = asyncio.wrap_future(awaitable)
    return await awaitable, context
