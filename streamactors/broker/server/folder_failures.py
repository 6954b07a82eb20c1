"""What a broker does when one of its data folders fails: it takes the partitions offline, or ends (KIP-112). Other faults that end it come here, too.

Owner: the server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.controller.cluster_command import FoldersFailed
from streamactors.broker.controller.command import Outcome
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker")


class FolderFailures:
    """The failures of the folders of one broker. `ended` says why the broker could not continue; None if it could."""

    def __init__(self, node: Node, stop: Callable[[], object]) -> None:
        """`stop` stops the broker, unless `on_end` is set."""
        self._node = node
        self._stop = stop
        self.ended: str | None = None
        self.on_end: Callable[[], object] | None = None
        """Hears that the broker cannot continue, on any thread, and has it stopped; None: the broker stops by itself."""
        self.unreported: set[DataFolder] = set()
        """The failed folders that the controller does not know yet."""

    def failed(self, folder: DataFolder) -> None:
        """Take the partitions of a folder offline, or end the broker with the folder of the metadata log. On any thread; it does not wait."""
        assert folder.failure is not None
        why = folder.failure.strerror or folder.failure
        folders = self._node.logs.folders
        if folder is folders.first or not folders.usable:
            which = "has the metadata log" if folder is folders.first else "is the last one that worked"
            self.end(
                f"broker {self._node.node_id} ends, because its data folder {folder.path}, which {which}, has failed: {why}; "
                "repair the disk and start the broker again"
            )
            return
        _log.error(
            "the data folder %s has failed: %s; its partitions are offline until the disk is repaired and the broker is started again",
            folder.path,
            why,
        )
        try:
            self._node.data_plane.execute(lambda: self._take_offline(folder))
        except DispatcherStopped:
            pass  # the broker has stopped

    def _take_offline(self, folder: DataFolder) -> None:
        node = self._node
        for log in node.logs.take_offline(folder):
            partition = node.partitions.get(log.topic, log.partition)
            if partition is not None:
                partition.lose()
        self._tell(folder)

    def _tell(self, folder: DataFolder) -> None:
        """Tell the controller, which makes other replicas the leaders. A broker that cannot tell it in time ends, so that the controller fences it."""
        node = self._node
        self.unreported.add(folder)
        within_ms = node.config.log_dir_failure_timeout_ms
        too_late = node.data_plane.call_later(
            within_ms,
            lambda: self.end(
                f"broker {node.node_id} ends, because no controller has heard within {within_ms} ms (log.dir.failure.timeout.ms) that its "
                f"data folder {folder.path} has failed; repair the disk, look at the controllers, and start the broker again"
            ),
        )

        def told(outcome: Outcome) -> None:
            if not outcome.code:
                too_late.cancel()
                self.unreported.discard(folder)

        node.active_controller.submit(FoldersFailed(node.node_id, node.logs.folders.failed_ids), told)

    def end(self, why: str) -> None:
        """End the broker, which cannot continue. Its process ends it; an embedded one ends itself. On any thread; it does not wait."""
        if self.ended is not None:
            return
        self.ended = why
        _log.critical("%s", why)
        if self.on_end is not None:
            self.on_end()
        else:
            threading.Thread(target=self._stop, name="broker-end", daemon=True).start()
