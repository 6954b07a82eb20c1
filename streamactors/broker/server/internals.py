"""What only a broker itself knows: times of its requests and of its disk, what waits in it, its data folders. For a page about the cluster.

Owner: the data plane. The first look switches the measuring on; ten seconds without a look switch it off, so a broker that nobody looks at pays nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.helpers import call_on
from streamactors.broker.latencies import Latencies
from streamactors.broker.requests.request_times import RequestTimes

if TYPE_CHECKING:
    from streamactors.actors.dispatching.dispatcher import Dispatcher
    from streamactors.actors.dispatching.timing_wheel import Timer
    from streamactors.broker.node import Node

UNREAD_MS: Final = 10_000.0
ANSWER_S: Final = 5.0
"""How long somebody who looks may wait for the data plane."""


class Internals:
    """Looks into a node. JSON values only: another process may ask."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._files = node.logs.open_files
        self._since_ms = 0.0
        self._timer: Timer | None = None

    def look(self) -> dict[str, Any]:
        """Return what is known now; times are since the last look. On the data plane's thread."""
        node = self.node
        now_ms = node.clock.now_ms()
        seconds = (now_ms - self._since_ms) / 1000 if self._timer is not None else 0.0
        times, writes = node.request_times, self._files.write_spans
        if times is None or writes is None:
            times, writes = RequestTimes(), Latencies()
            node.request_times, self._files.write_spans = times, writes
        self._since_ms = now_ms
        self._arm(node.data_plane)
        spans = writes.take()
        connections = list(node.processor.connections.values())
        return {
            "id": node.config.effective_node_id,
            "controller": node.controller.active,
            "connections": len(connections),
            "throttled": sum(each.throttles > 0 for each in connections),
            "produce_purgatory": node.produce_purgatory.delayed,
            "fetch_purgatory": node.fetch_purgatory.delayed,
            "disks": _disks(node),
            "topics": _topic_bytes(node),
            "requests": times.take(seconds),
            "disk_write_ms_p99": None if spans is None else round(spans.ms_p99, 3),
            "disk_write_ms_max": None if spans is None else round(spans.ms_max, 3),
            "disk_busy": 0.0 if spans is None or not seconds else round(min(1.0, spans.ms_sum / 1000 / seconds), 3),
        }

    def _arm(self, data_plane: Dispatcher) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = data_plane.call_later(UNREAD_MS, self._rest)

    def _rest(self) -> None:
        """Nobody has looked for a while."""
        self._timer = None
        self.node.request_times = self._files.write_spans = None


def look_into(internals: Internals) -> dict[str, Any] | None:
    """Return what a node knows of itself; None if its data plane does not answer within five seconds, or has stopped. Any thread."""
    try:
        return call_on(internals.node.data_plane, internals.look, ANSWER_S)
    except (TimeoutError, DispatcherStopped):
        return None


def _disks(node: Node) -> list[dict[str, Any]]:
    sizes: dict[str, int] = {}
    for log in node.logs.logs():
        folder = str(log.directory.parent)
        sizes[folder] = sizes.get(folder, 0) + log.size_bytes
    found = []
    for each in node.logs.folders.all:
        path = str(each.path)
        disk: dict[str, Any] = {"folder": path, "bytes": sizes.get(path, 0), "total_bytes": None, "free_bytes": None}
        failure = each.failure or each.shortage
        disk["error"] = None if failure is None else str(failure)
        try:
            space = os.statvfs(path)
        except OSError:
            pass  # it has failed, or will say so
        else:
            disk["total_bytes"], disk["free_bytes"] = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        found.append(disk)
    return found


def _topic_bytes(node: Node) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for partition in node.partitions:
        if partition.is_leader:
            sizes[partition.topic] = sizes.get(partition.topic, 0) + partition.log.size_bytes
    return sizes
