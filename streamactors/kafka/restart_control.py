"""RestartControl: one control for all instances of a source that RestartSource restarts."""

from __future__ import annotations

from typing import Any, TypeVar

from streamactors.dsl.source import Source
from streamactors.kafka.controls.control import FollowingControl
from streamactors.stages.restart_settings import NoMoreRestarts

T = TypeVar("T")


class RestartControl(FollowingControl):
    """Follow each instance of a restarted source:

        control = RestartControl()
        RestartSource.with_backoff(restarts, lambda: control.follow(Consumer.source(settings, subscription)))

    A user's pause survives restarts. After `stop` the running source completes and no other is made. `is_shutdown` is done when the last
    instance has closed its consumer."""

    def __init__(self) -> None:
        super().__init__()

    def follow(self, source: Source[T, Any]) -> Source[T, Any]:
        """Return `source` with this control attached when it runs. After `stop` RestartSource completes instead of restarting."""
        if self._stopped:
            raise NoMoreRestarts
        return source.map_materialized_value(self._take_over)

    def stop_at_end(self) -> None:
        """As `stop`, after every record that the partitions hold now has been delivered."""
        with self._lock:
            self._stopped = True
            current = self._stands_for
        if current is None:
            self.is_shutdown.try_complete(None)
        else:
            current.stop_at_end()
            current.is_shutdown.add_done_callback(self._closed)
