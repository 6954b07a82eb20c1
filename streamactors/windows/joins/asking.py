"""Asking a function for many keys at once.

Owner: LookupJoin. Plain functions run on threads of their own; a single key is asked for on the caller's thread. Coroutine functions, and awaitables
that plain functions return, run on the asyncio loop of the actor system, or without a system on a loop of their own. The caller
waits for all answers, so it need not care for order or threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from streamactors.errors import AbruptTermination
from streamactors.stages.checks import is_coroutine_function

T = TypeVar("T")

LookupAnswer: TypeAlias = tuple[Any, "Exception | None"]
"""An answer, or the error of its call."""

StartCoroutine: TypeAlias = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]


class Asking:
    """Calls `fn(key)` for lists of keys, at most `most` calls at a time. `start`: runs a coroutine on another thread's loop."""

    def __init__(self, fn: Callable[[Any], Any], most: int, start: StartCoroutine | None) -> None:
        self._fn = fn
        self._most = most
        self._start = start
        self._is_async = is_coroutine_function(fn)
        self._threads: ThreadPoolExecutor | None = None
        self._runner: asyncio.Runner | None = None

    def ask(self, keys: Sequence[Any]) -> list[LookupAnswer]:
        """Return the outcome for each key, in order. Blocks until the last call has ended."""
        if self._is_async:
            return self._await(keys, self._fn)
        if len(keys) == 1 or self._most == 1:
            outcomes = [self._call(key) for key in keys]
        else:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._most, "lookup")
            outcomes = list(self._threads.map(self._call, keys))
        awaited = [at for at, (answer, _) in enumerate(outcomes) if inspect.isawaitable(answer)]
        if awaited:
            for at, outcome in zip(awaited, self._await([outcomes[at][0] for at in awaited], _itself), strict=True):
                outcomes[at] = outcome
        return outcomes

    def close(self) -> None:
        """No call follows."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def _call(self, key: Any) -> LookupAnswer:
        try:
            return self._fn(key), None
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            return None, error

    def _await(self, items: Sequence[Any], awaitable_of: Callable[[Any], Awaitable[Any]]) -> list[LookupAnswer]:
        coroutine = self._all(items, awaitable_of)
        try:
            return self._on_own_loop(coroutine) if self._start is None else self._start(coroutine).result()
        except (CancelledError, asyncio.CancelledError):
            error = AbruptTermination("the actor system ended while a lookup waited for its answer")
            return [(None, error)] * len(items)

    async def _all(self, items: Sequence[Any], awaitable_of: Callable[[Any], Awaitable[Any]]) -> list[LookupAnswer]:
        free = asyncio.Semaphore(self._most)

        async def one(item: Any) -> LookupAnswer:
            async with free:
                try:
                    return await awaitable_of(item), None
                except Exception as error:  # noqa: BLE001 - whatever user code raises
                    return None, error

        return list(await asyncio.gather(*map(one, items)))

    def _on_own_loop(self, coroutine: Coroutine[Any, Any, list[LookupAnswer]]) -> list[LookupAnswer]:
        """Run a coroutine on a thread of its own: the caller's thread may have a loop that runs."""
        if self._runner is None:
            self._runner = asyncio.Runner()
            weakref.finalize(self, _without_loop, self._runner.close)
        runner = self._runner
        return _on_own_thread(lambda: runner.run(coroutine))


def _on_own_thread(call: Callable[[], T]) -> T:
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            found.set_exception(error)

    thread = threading.Thread(target=run, name="lookup-loop")
    thread.start()
    thread.join()
    return found.result()


def _without_loop(call: Callable[[], T]) -> T:
    """Make a call on a thread that runs no event loop: this one, if it runs none. The garbage collector may call from any thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    return _on_own_thread(call)


def _itself(awaitable: Awaitable[Any]) -> Awaitable[Any]:
    return awaitable
