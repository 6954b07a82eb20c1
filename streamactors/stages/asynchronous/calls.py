"""Calls: user functions that run outside the island, and the way their results come back.

Coroutine functions run on the system's asyncio loop, or on the user's own, which gets a whole chunk at once. Plain functions run on the
system's pool, each call in a cell, so a call that blocks costs a thread but delays no other call; a plain function may return a future or an
awaitable, which is awaited on the same loop.

Owner: the stage's island. Calls that end on other threads are put into `_ended`; one message wakes the island for all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from streamactors.actors.cell import Cell
from streamactors.engine.awaiting import can_be_awaited, watch
from streamactors.engine.island.coroutines import loop_of
from streamactors.engine.logic import Logic
from streamactors.errors import AbruptTermination
from streamactors.stages.asynchronous.own_loop import OwnLoop
from streamactors.stages.checks import is_coroutine_function


class Call:
    """One element, and the result or error of its call."""

    __slots__ = ("cancel", "cell", "context", "done", "dropped", "element", "error", "failed", "key", "token", "value")

    def __init__(self, element: Any) -> None:
        self.element = element
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.dropped = False  # by supervision
        self.failed = 0  # attempts, where a failed call is made again
        self.key: Any = None
        self.token = 0
        self.cancel: Callable[[], Any] | None = None
        self.cell: Cell | None = None
        self.context: Context | None = None  # of a traced run: the span of a sampled record is current in it


class Calls:
    """Starts calls of `fn` for the stage `logic`; calls `on_ended(calls)` on its island when some have ended."""

    def __init__(
        self,
        logic: Logic,
        fn: Callable[[Any], Any],
        on_ended: Callable[[list[Call]], None],
        *,
        here: bool = False,
        own_loop: OwnLoop | None = None,
    ) -> None:
        """`here`: call `fn` on the island; it must return an awaitable without delay. `own_loop`: the user's asyncio loop."""
        self._fn = fn
        self._on_ended = on_ended
        self._system = logic.interpreter.island.run.system
        self._tell = logic.async_callback(self._collect).invoke
        self._logic = logic
        self._name = logic.name
        self._ended: deque[Call] = deque()
        self._told = False
        self._stopped = False
        self._running: dict[Call, None] = {}  # in the order of their start, in which they are cancelled
        self._idle_cells: list[Cell] = []
        self._own_loop = own_loop
        self._loop = None if own_loop is None else own_loop.loop
        if here:
            self._how = self._start_here
        elif is_coroutine_function(fn):
            self._how = self._start_on_loop if own_loop is None else self._start_on_own_loop
        else:
            self._how = self._start_on_pool
        self.start = self._how if logic.interpreter.island.run.trace is None else self._start_traced
        """Start calls, in order. On the island."""

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_on_loop(self, calls: list[Call]) -> None:
        self._running.update(dict.fromkeys(calls))
        loop_of(self._system).start(self._begin(calls))

    def _start_on_own_loop(self, calls: list[Call]) -> None:
        self._running.update(dict.fromkeys(calls))
        self._tell_own_loop(lambda: self._begin_on(asyncio.get_running_loop(), calls))

    def _tell_own_loop(self, call: Callable[[], None]) -> None:
        assert self._own_loop is not None
        try:
            self._own_loop.loop.call_soon_threadsafe(call)
        except RuntimeError:
            raise self._own_loop.closed() from None

    @property
    def any_running(self) -> bool:
        """True while a call has not ended."""
        return bool(self._running)

    async def _begin(self, calls: list[Call]) -> None:
        self._begin_on(asyncio.get_running_loop(), calls)

    def _begin_on(self, loop: asyncio.AbstractEventLoop, calls: list[Call]) -> None:
        for call in calls:
            if not self._stopped:
                task = loop.create_task(self._run(call))
                call.cancel = task.cancel

    async def _run(self, call: Call) -> None:
        try:
            call.value = await self._fn(call.element)
        except BaseException as error:  # noqa: BLE001  # the user's function, or a cancellation
            call.error = error
        self._end(call)

    def _start_on_pool(self, calls: list[Call]) -> None:
        self._running.update(dict.fromkeys(calls))
        cells = self._idle_cells
        for call in calls:
            call.cell = cell = cells.pop() if cells else self._system.pool.spawn(self._run_on_pool, self._name)
            cell.tell(call)

    def _start_traced(self, calls: list[Call]) -> None:
        """Start calls that run in the context of this moment, on whichever thread. Coroutines do so by themselves."""
        context = copy_context()
        for call in calls:
            call.context = context.copy()
        self._how(calls)

    def _run_on_pool(self, call: Call) -> None:
        if self._stopped:
            return
        try:
            value = self._fn(call.element) if call.context is None else call.context.run(self._fn, call.element)
            if can_be_awaited(value):
                self._await(call, value)
                return
            call.value = value
        except BaseException as error:  # noqa: BLE001  # the user's function
            call.error = error
        self._end(call)

    def _start_here(self, calls: list[Call]) -> None:
        for call in calls:
            self._running[call] = None
            try:
                self._await(call, self._fn(call.element))
            except BaseException as error:  # noqa: BLE001  # the user's function
                call.error = error
                self._end(call)

    def _await(self, call: Call, value: Any) -> None:
        def ended(result: Any, error: BaseException | None) -> None:
            call.value, call.error = result, error
            self._end(call)

        call.cancel = watch(self._logic, value, ended, self._loop)

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, call: Call) -> None:
        """A call has ended. Any thread."""
        self._ended.append(call)
        if not self._told:
            self._told = True
            self._tell(None)

    def _collect(self, _: None) -> None:
        self._told = False  # before the look, so that a call that ends now wakes the island again
        ended = self._ended
        calls = [ended.popleft() for _ in range(len(ended))]
        for call in calls:
            call.done = True
            self._running.pop(call, None)
            if call.cell is not None:
                self._idle_cells.append(call.cell)
                call.cell = None
        if calls:
            self._on_ended(calls)

    def stop(self) -> None:
        """Cancel running calls and drop their results; calls that have not begun never begin. On the island."""
        self._stopped = True
        cancels = [call.cancel for call in self._running if call.cancel is not None]
        self._running.clear()
        if self._loop is not None and self._loop.is_closed():
            return  # asyncio.run has cancelled them
        if cancels and self._how == self._start_on_loop:
            try:
                loop_of(self._system).start(_call_all(cancels))
            except (RuntimeError, AbruptTermination):
                pass  # the system is shutting down and has cancelled the calls
        elif cancels and self._how == self._start_on_own_loop:
            with suppress(AbruptTermination):  # a closed loop has cancelled the calls
                self._tell_own_loop(lambda: _call_each(cancels))
        else:
            for cancel in cancels:
                cancel()


async def _call_all(cancels: list[Callable[[], Any]]) -> None:
    _call_each(cancels)


def _call_each(cancels: list[Callable[[], Any]]) -> None:
    for cancel in cancels:
        cancel()
