"""map_async_partitioned and its unordered form: calls for several keys at a time, and few for one key.

An element whose key is busy waits here; the call before it starts the next one when it has ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS
from streamactors.engine.stage import In, Out
from streamactors.stages.asynchronous.calls import Call
from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker
from streamactors.stages.asynchronous.map_async import AsyncLogic, MapAsync, OrderedLogic, UnorderedLogic
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.restart_settings import RestartSettings


class MapAsyncPartitioned(MapAsync[In, Out]):
    """The stage of `Source.map_async_partitioned`."""

    def __init__(
        self,
        parallelism: int,
        key: Callable[[Any], Any],
        fn: Callable[[Any], Any],
        per_partition: int = 1,
        loop: asyncio.AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
        *,
        gives_up: bool = False,
    ) -> None:
        super().__init__(parallelism, fn, loop, retry, breaker, timeout, gives_up=gives_up)
        self.key = plain_function(self.label, key)
        self.per_partition = positive(self.label, "per_partition", per_partition)


class MapAsyncPartitionedUnordered(MapAsyncPartitioned[In, Out]):
    """The stage of `Source.map_async_partitioned_unordered`."""

    handling = BLURS


class _KeyedLogic(AsyncLogic):
    """Starts at most `per_partition` calls of a key at a time."""

    def __init__(self, stage: MapAsyncPartitioned[Any, Any]) -> None:
        super().__init__(stage)
        self._busy: dict[Any, int] = {}  # calls that run, per key
        self._waiting: dict[Any, deque[Call]] = {}

    def admit(self, call: Call) -> None:
        """Note a call that has entered."""
        raise NotImplementedError  # pragma: no cover

    def drop(self, call: Call) -> None:
        """The key of an element could not be computed: supervision has dropped it, or it was given up."""
        raise NotImplementedError  # pragma: no cover

    def enter(self, calls: list[Call]) -> None:
        ready: list[Call] = []
        failure: BaseException | None = None
        key_of, most = self.stage.key, self.stage.per_partition
        for call in calls:
            try:
                call.key = key_of(call.element)
                busy = self._busy.get(call.key, 0)
            except BaseException as error:  # noqa: BLE001  # the user's function, or a key that has no hash
                call.error = error
                failure = self.judge(call)
                if failure is not None:
                    break
                call.done = True
                self.admit(call)
                self.drop(call)
                continue
            self.admit(call)
            if busy < most:
                self._busy[call.key] = busy + 1
                ready.append(call)
            else:
                self._waiting.setdefault(call.key, deque()).append(call)
        if failure is not None:
            raise failure
        if ready:
            self._calls.start(ready)

    def left(self, calls: list[Call]) -> None:
        super().left(calls)
        ready: list[Call] = []
        for call in calls:
            key = call.key
            waiting = self._waiting.get(key)
            if waiting:
                ready.append(waiting.popleft())
                if not waiting:
                    del self._waiting[key]
            elif self._busy[key] == 1:
                del self._busy[key]
            else:
                self._busy[key] -= 1
        if ready:
            self._calls.start(ready)


@logic_of(MapAsyncPartitioned)
class _PartitionedLogic(_KeyedLogic, OrderedLogic):
    def admit(self, call: Call) -> None:
        self._queue.append(call)

    def drop(self, call: Call) -> None:
        """The call leaves in its turn."""


@logic_of(MapAsyncPartitionedUnordered)
class _PartitionedUnorderedLogic(_KeyedLogic, UnorderedLogic):
    def admit(self, call: Call) -> None:
        call.token = self._epochs.enter()

    def drop(self, call: Call) -> None:
        self._ready.append(call)
