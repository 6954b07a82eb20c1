"""Calls: user functions that run outside the island, and the way their results come back.

Coroutine functions run on the system's asyncio loop, a whole chunk handed over at once. Plain functions run on the system's pool, each
call in a cell, so one that blocks costs a thread and holds up nobody; what they return may be a future or anything that can be awaited.

Owner: the stage's island. What ends elsewhere is put into `_ended`; the island is told to look there once, however many end meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.actors.cell import Cell
from streamactors.engine.awaiting import can_be_awaited, watch
from streamactors.engine.coroutines import loop_of
from streamactors.engine.logic import Logic
from streamactors.errors import AbruptTermination


class Call:
    """One element and what has become of it."""

    __slots__ = ("cancel", "cell", "done", "dropped", "element", "error", "key", "token", "value")

    def __init__(self, element: Any) -> None:
        self.element = element
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.dropped = False  # by supervision
        self.key: Any = None
        self.token = 0
        self.cancel: Callable[[], Any] | None = None
        self.cell: Cell | None = None


def is_coroutine_function(fn: Callable[..., Any]) -> bool:
    """True for what returns a coroutine when called: coroutine functions, partials of them, objects with an async __call__."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


class Calls:
    """Starts calls of `fn` for the stage `logic` and hands ended ones to `on_ended(calls)` on its island."""

    def __init__(
        self,
        logic: Logic,
        fn: Callable[[Any], Any],
        on_ended: Callable[[list[Call]], None],
        *,
        here: bool = False,
    ) -> None:
        """`here`: call `fn` on the island; it must return something to await at once."""
        self._fn = fn
        self._on_ended = on_ended
        self._system = logic.interpreter.island.run.system
        self._tell = logic.async_callback(self._collect).invoke
        self._name = logic.name
        self._ended: deque[Call] = deque()
        self._told = False
        self._stopped = False
        self._running: set[Call] = set()
        self._idle_cells: list[Cell] = []
        if here:
            self.start = self._start_here
        elif is_coroutine_function(fn):
            self.start = self._start_on_loop
        else:
            self.start = self._start_on_pool

    start: Callable[[list[Call]], None]
    """Start calls, in order. On the island."""

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_on_loop(self, calls: list[Call]) -> None:
        self._running.update(calls)
        loop_of(self._system).start(self._begin(calls))

    async def _begin(self, calls: list[Call]) -> None:
        loop = asyncio.get_running_loop()
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
        self._running.update(calls)
        cells = self._idle_cells
        for call in calls:
            call.cell = cell = cells.pop() if cells else self._system.pool.spawn(self._run_on_pool, self._name)
            cell.tell(call)

    def _run_on_pool(self, call: Call) -> None:
        if self._stopped:
            return
        try:
            value = self._fn(call.element)
            if can_be_awaited(value):
                self._await(call, value)
                return
            call.value = value
        except BaseException as error:  # noqa: BLE001  # the user's function
            call.error = error
        self._end(call)

    def _start_here(self, calls: list[Call]) -> None:
        for call in calls:
            self._running.add(call)
            try:
                self._await(call, self._fn(call.element))
            except BaseException as error:  # noqa: BLE001  # the user's function
                call.error = error
                self._end(call)

    def _await(self, call: Call, value: Any) -> None:
        def ended(result: Any, error: BaseException | None) -> None:
            call.value, call.error = result, error
            self._end(call)

        call.cancel = watch(self._system, value, ended)

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, call: Call) -> None:
        """Any thread: a call is over."""
        self._ended.append(call)
        if not self._told:
            self._told = True
            self._tell(None)

    def _collect(self, _: None) -> None:
        self._told = False  # before looking, so that what ends now is told again
        ended = self._ended
        calls = [ended.popleft() for _ in range(len(ended))]
        for call in calls:
            call.done = True
            self._running.discard(call)
            if call.cell is not None:
                self._idle_cells.append(call.cell)
                call.cell = None
        if calls:
            self._on_ended(calls)

    def stop(self) -> None:
        """Cancel what runs and forget its results; calls that have not begun never begin. On the island."""
        self._stopped = True
        cancels = [call.cancel for call in self._running if call.cancel is not None]
        self._running.clear()
        if cancels and self.start == self._start_on_loop:
            try:
                loop_of(self._system).start(_call_all(cancels))
            except (RuntimeError, AbruptTermination):
                pass  # the system is ending, and has cancelled them
        else:
            for cancel in cancels:
                cancel()


async def _call_all(cancels: list[Callable[[], Any]]) -> None:
    for cancel in cancels:
        cancel()
