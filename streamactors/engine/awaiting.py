"""Waiting from inside a stage: for a future of threads or of asyncio, a coroutine, or anything else that can be awaited."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamactors.actors.waits import forget_loop, need_loop
from streamactors.engine.island.coroutines import run_coroutine
from streamactors.engine.logic import Logic

Ended = Callable[[Any, BaseException | None], None]
"""Called with (result, None) or with (None, error)."""


def can_be_awaited(value: object) -> bool:
    """True for a value that `when_done` can wait for."""
    return isinstance(value, concurrent.futures.Future) or inspect.isawaitable(value)


def when_done(logic: Logic, awaited: Any, ended: Ended) -> Callable[[], Any]:
    """Call `ended(result, error)` on the island of `logic` when `awaited` has ended; return a function that cancels `awaited`.

    Coroutines run on the system's asyncio loop; an asyncio future is watched on its own loop. `ended` is not called when the stage has stopped."""

    def tell_island(outcome: tuple[Any, BaseException | None]) -> None:
        ended(*outcome)

    tell = logic.async_callback(tell_island).invoke
    return watch(logic, awaited, lambda result, error: tell((result, error)))


def watch(logic: Logic, awaited: Any, ended: Ended, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], Any]:
    """As `when_done`, but `ended` is called on the thread that ends `awaited`. May be called on any thread.

    `loop`: the loop for coroutines, instead of the system's. Raises RuntimeError when it is closed."""
    if isinstance(awaited, concurrent.futures.Future):
        awaited.add_done_callback(lambda future: ended(*_outcome(future)))
        return awaited.cancel
    if asyncio.isfuture(awaited):
        home = awaited.get_loop()

        def done(future: asyncio.Future[Any]) -> None:
            forget_loop(future)
            ended(*_outcome(future))

        home.call_soon_threadsafe(awaited.add_done_callback, done)
        need_loop(awaited, home, logic)
        return lambda: _cancel_on(home, awaited)
    coroutine = awaited if inspect.iscoroutine(awaited) else _awaiting(awaited)
    if loop is None:
        future = run_coroutine(logic.interpreter.island.run.system, coroutine)
    else:
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise
    future.add_done_callback(lambda future: ended(*_outcome(future)))
    return future.cancel


def _cancel_on(home: asyncio.AbstractEventLoop, awaited: asyncio.Future[Any]) -> None:
    """Cancel a future on its own loop. A closed loop runs nothing, so there is nothing to cancel."""
    with suppress(RuntimeError):
        home.call_soon_threadsafe(awaited.cancel)


async def _awaiting(awaitable: Any) -> Any:
    return await awaitable


def _outcome(future: Any) -> tuple[Any, BaseException | None]:
    try:
        error = future.exception()
    except (concurrent.futures.CancelledError, asyncio.CancelledError) as cancelled:
        error = cancelled
    return (None, error) if error is not None else (future.result(), None)
