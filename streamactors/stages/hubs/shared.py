"""What BroadcastHub and PartitionHub have in common: the stream that runs into the hub, and consumers that join and leave while it runs.

The hub's lock guards what the threads share. The logics of the hub and of its consumers run on the islands of their own runs."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Any, Generic, TypeVar

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.errors import AbruptTermination
from streamactors.log_limit import alike, log_limited

log = logging.getLogger("streamactors.stages.hubs")

BUFFER = 1_024

C = TypeVar("C", bound="HubConsumerLogic[Any]")


class Hub(Generic[C]):
    """What the hub and its consumers share; the sources of the consumers hold it. Any thread."""

    kind: str

    def __init__(self, start_after: int, buffer: int) -> None:
        self._buffer = buffer
        self._missing = max(1, start_after)  # consumers that must join before the hub begins
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._consumers: dict[int, C] = {}
        self._over: object | None = None  # COMPLETED or the error
        self.logic: HubSinkLogic[Any]

    @property
    def consumers(self) -> int:
        """The number of consumers that run now."""
        return len(self._consumers)

    @property
    def failure(self) -> BaseException | None:
        """The error of the stream."""
        return self._over if isinstance(self._over, BaseException) else None

    def end(self, over: object) -> None:
        """The stream has ended: COMPLETED or an error."""
        with self._lock:
            if self._over is not None:
                return
            self._over = over
            consumers = list(self._consumers.values())
        if isinstance(over, BaseException) and not isinstance(over, AbruptTermination) and not consumers:
            kind = type(over).__name__
            log_limited(
                log, logging.WARNING, (kind, alike(over)),
                "a stream has failed in a %s without consumers: %s: %s", self.kind, kind, over,
            )  # fmt: skip
        for consumer in consumers:
            consumer.wake.invoke(None)

    def join(self, consumer: C) -> None:
        """A consumer starts."""
        with self._lock:
            consumer.id = next(self._ids)
            self._consumers[consumer.id] = consumer
            self._joined(consumer)
            first = self._missing == 1 or (not self._missing and len(self._consumers) == 1)
            self._missing = max(0, self._missing - 1)
        if first:
            self.logic.wake.invoke(None)

    def _joined(self, consumer: C) -> None:
        """Give a new consumer its place. The caller holds the lock."""
        raise NotImplementedError

    def leave(self, consumer: C) -> None:
        """A consumer has ended. Further calls do nothing."""
        raise NotImplementedError


H = TypeVar("H", bound=Hub[Any])


class HubSinkLogic(Logic, Generic[H]):
    """The end of the stream that runs into the hub. The hub calls `wake` when there is room, or a consumer."""

    def __init__(self, stage: Any, hub: H) -> None:
        super().__init__(stage)
        self.hub = hub
        hub.logic = self
        self.wake = self.async_callback(self._look)

    def _look(self, _: None) -> None:
        raise NotImplementedError

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.hub.end(error)
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self.hub.end(AbruptTermination(f"a {self.hub.kind} was stopped before its stream ended"))

    def snapshot_state(self) -> str:
        return f"{self.hub.consumers} consumers"


class HubConsumerLogic(SourceLogic, Generic[H]):
    """A consumer. The hub calls `wake` when there is something to look at, if the consumer `waits`."""

    id = -1

    def __init__(self, stage: Any, waits: bool) -> None:
        super().__init__(stage)
        self.hub: H = stage.hub
        self.waits = waits
        self.wake = self.async_callback(self._look)

    def on_start(self) -> None:
        self.hub.join(self)
        self.on_pull(self.out)

    def _look(self, _: None) -> None:
        self.on_pull(self.out)

    def on_stop(self) -> None:
        self.hub.leave(self)
