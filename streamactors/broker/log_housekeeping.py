"""Housekeeping of the logs: checkpoints, retention, flush.ms, deferred deletes, compaction.

Owner: two dispatchers of its own, because all of it waits for the disk. The cleaner has its own, for compacting a large
partition takes long and checkpoints must not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatcher import Dispatcher

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_STOP_SECONDS: Final = 5.0


class LogHousekeeping:
    """Calls the log manager and the cleaner when something is due."""

    def __init__(self, node: Node) -> None:
        self._node = node
        name = node.data_plane.name
        self._logs = Dispatcher(f"{name}-logs", node.clock)
        self._cleaner = Dispatcher(f"{name}-cleaner", node.clock)

    def start(self) -> None:
        self._logs.execute(self._tick)
        if self._node.config.log_cleaner_enable:
            self._cleaner.call_later(self._node.config.log_cleaner_backoff_ms, self._clean)

    def stop(self) -> None:
        self._cleaner.stop(_STOP_SECONDS)
        self._logs.stop(_STOP_SECONDS)

    def _tick(self) -> None:
        delay_ms = 1000.0
        try:
            delay_ms = self._node.logs.tick(self._node.clock.wall_ms())
        finally:
            self._logs.call_later(max(delay_ms, 1.0), self._tick)

    def _clean(self) -> None:
        delay_ms: float = self._node.config.log_cleaner_backoff_ms
        try:
            if self._node.logs.cleaner.run_once(self._node.clock.wall_ms()):
                delay_ms = 0
        finally:
            self._cleaner.call_later(delay_ms, self._clean)
