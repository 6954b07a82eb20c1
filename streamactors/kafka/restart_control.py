"""RestartControl: one control for all instances of a source that RestartSource restarts."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, TypeVar

from streamactors.clock import Timeout
from streamactors.dsl.source import Source
from streamactors.kafka.control import Control
from streamactors.kafka.reading.snapshot import snapshot_without_consumer
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.stages.control.restart_settings import NoMoreRestarts

T = TypeVar("T")


class RestartControl(Control):
    """Follow each instance of a restarted source:

        control = RestartControl()
        RestartSource.with_backoff(restarts, lambda: control.follow(Consumer.source(settings, subscription)))

    A user's pause survives restarts. After `stop` the running source completes and no other is made. `is_shutdown` is done when the last
    instance has closed its consumer."""

    def __init__(self) -> None:
        super().__init__()
        self._current: Control | None = None
        self._paused: dict[TopicPartition, None] = {}
        self._stopped = False
        self._started = 0

    def follow(self, source: Source[T, Any]) -> Source[T, Any]:
        """Return `source` with this control attached when it runs. After `stop` RestartSource completes instead of restarting."""
        if self._stopped:
            raise NoMoreRestarts
        return source.map_materialized_value(self._take_over)

    def _take_over(self, control: Control) -> Control:
        with self._lock:
            self._current = control
            self._started += 1
            paused, stopped = tuple(self._paused), self._stopped
        if paused:
            control.pause(*paused)
        if stopped:
            self._stop(control)
        return control

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            current = self._current
        if current is None:
            self.is_shutdown.try_complete(None)
        else:
            self._stop(current)

    def stop_at_end(self) -> None:
        """As `stop`, after every record that the partitions hold now has been delivered."""
        with self._lock:
            self._stopped = True
            current = self._current
        if current is None:
            self.is_shutdown.try_complete(None)
        else:
            current.stop_at_end()
            current.is_shutdown.add_done_callback(self._closed)

    def _stop(self, control: Control) -> None:
        control.is_draining = self.is_draining
        control.stop()
        control.is_shutdown.add_done_callback(self._closed)

    def _closed(self, future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            self.is_shutdown.try_complete(None)
        else:
            self.is_shutdown.try_fail(error)

    def pause(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            self._paused.update((TopicPartition(*partition), None) for partition in partitions)
            current = self._current
        if current is not None:
            current.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            for partition in partitions:
                self._paused.pop(TopicPartition(*partition), None)
            current = self._current
        if current is not None:
            current.resume(*partitions)

    def snapshot(self, timeout: Timeout = 5.0) -> dict[str, Any]:
        """Return the snapshot of the running instance, and the number of `restarts`; `timeout` in seconds, or as a timedelta or a string."""
        with self._lock:
            current, started = self._current, self._started
        found = snapshot_without_consumer() if current is None else current.snapshot(timeout)
        return {**found, "restarts": max(0, started - 1)}
