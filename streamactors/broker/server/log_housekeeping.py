"""Housekeeping of the logs: checkpoints, retention, flush.ms, deferred deletes, compaction.

Owner: two dispatchers of its own, because this work waits for the disk. The cleaner has one of them: compacting a large partition
takes long, and checkpoints must not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_STOP_SECONDS: Final = 5.0
_SHORTEST_PAUSE_MS: Final = 100
"""Pause of the cleaner with log.cleaner.backoff.ms=0, so that it does not take a whole core."""


class LogHousekeeping:
    """Calls the log manager and the cleaner when work is due."""

    def __init__(self, node: Runtime) -> None:
        self._node = node
        name = node.data_plane.name
        self._logs = Dispatcher(f"{name}-logs", node.clock)
        self._cleaner = Dispatcher(f"{name}-cleaner", node.clock)

    def start(self) -> None:
        self._logs.execute(self._tick)
        if self._node.config.log_cleaner_enable:
            self._cleaner.call_later(self._pause_ms, self._clean)

    def stop(self) -> None:
        self._cleaner.stop(_STOP_SECONDS)
        self._logs.stop(_STOP_SECONDS)

    @property
    def _pause_ms(self) -> int:
        return max(self._node.config.log_cleaner_backoff_ms, _SHORTEST_PAUSE_MS)

    def _tick(self) -> None:
        delay_ms = 1000.0
        try:
            delay_ms = self._node.logs.tick(self._node.clock.wall_ms())
        finally:
            self._logs.call_later(max(delay_ms, 1.0), self._tick)

    def _clean(self) -> None:
        delay_ms = self._pause_ms
        try:
            if self._node.logs.cleaner.run_once(self._node.clock.wall_ms()):
                delay_ms = 0
        finally:
            self._cleaner.call_later(delay_ms, self._clean)
