"""The timeout of a call (`map_async(timeout=…)`): an awaitable that lasts longer is cancelled, and the attempt has failed.

A blocking function cannot be stopped, so its late result is emitted, and a warning says it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
from collections.abc import Callable
from typing import Any

from streamactors.engine.awaiting import can_be_awaited
from streamactors.engine.logic import Logic
from streamactors.engine.user_code import shortened
from streamactors.errors import CallTimeout
from streamactors.log_limit import log_limited
from streamactors.stages.checks import is_coroutine_function

_log = logging.getLogger("streamactors.stages.retry")


def timed(logic: Logic, fn: Callable[[Any], Any], timeout_ms: float) -> Callable[[Any], Any]:
    """Return `fn` with a timeout for each call: a coroutine function for a coroutine function, a plain one for a plain one.

    A call that lasts longer raises CallTimeout, which names the stage of `logic`, the element and the time."""

    async def within(element: Any, call: Callable[[], Any]) -> Any:
        limit = asyncio.timeout(timeout_ms / 1_000)
        try:
            async with limit:
                awaited = call()
                if isinstance(awaited, concurrent.futures.Future):
                    awaited = asyncio.wrap_future(awaited)
                return await awaited
        except TimeoutError:
            if not limit.expired():
                raise  # the function's own
            raise CallTimeout(
                f"{logic.name}: the call with element {shortened(element, 80)} lasted longer than timeout, {timeout_ms:g} ms, and was cancelled; "
                "for a service that is only slow give a longer timeout="
            ) from None

    async def timed_coroutine(element: Any) -> Any:
        return await within(element, lambda: fn(element))

    def timed_plain(element: Any) -> Any:
        clock = logic.interpreter.island.run.system.clock
        began_ms = clock.now_ms()
        value = fn(element)
        if can_be_awaited(value):
            return within(element, lambda: value)
        lasted_ms = clock.now_ms() - began_ms
        if lasted_ms > timeout_ms:
            _warn_of_blocking(logic.name, fn, lasted_ms, timeout_ms)
        return value

    return functools.update_wrapper(timed_coroutine if is_coroutine_function(fn) else timed_plain, fn)


def _warn_of_blocking(stage: str, fn: Any, lasted_ms: float, timeout_ms: float) -> None:
    name = getattr(fn, "__qualname__", repr(fn))
    text = (
        "%s: a call of %s lasted %.0f ms, longer than timeout, %g ms; a blocking function cannot be stopped, so its result is emitted; "
        "use a coroutine function, or give the client that it calls a timeout of its own"
    )
    log_limited(_log, logging.WARNING, (stage, name), text, stage, name, lasted_ms, timeout_ms)
