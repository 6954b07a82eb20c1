"""What a broker does while descriptors or space are short in a data folder: it looks every second whether that is over.

Owner: the server. The logs try again by themselves: each append, fetch of a follower, retention and compaction is a new attempt. A shortage that
lasts moves the leadership of the folder's partitions to other replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.folders.data_folder import DataFolder

if TYPE_CHECKING:
    from streamactors.broker.node import Node
    from streamactors.broker.server.folder_assignments import FolderAssignments


LOOK_MS: Final = 1_000.0
LASTS_MS: Final = 10_000.0
"""Longer than a burst of connections, shorter than the patience of a producer (delivery.timeout.ms)."""


class Shortages:
    """The data folders that are short of descriptors or space."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._since_ms: dict[DataFolder, float] = {}
        self.assignments: FolderAssignments | None = None
        """Moves leaderships; None on a broker that is its whole cluster."""

    def begins(self, folder: DataFolder) -> None:
        """A folder runs short. On any thread; it does not wait."""
        try:
            self._node.data_plane.execute(lambda: self._begin(folder))
        except DispatcherStopped:
            pass  # the broker has stopped

    def _begin(self, folder: DataFolder) -> None:
        if folder not in self._since_ms:
            self._since_ms[folder] = self._node.clock.now_ms()
            self._look_later(folder)

    def _look_later(self, folder: DataFolder) -> None:
        self._node.data_plane.call_later(LOOK_MS, lambda: self._look(folder))

    def _look(self, folder: DataFolder) -> None:
        try:
            self._node.helpers.run(folder.probe, lambda outcome: self._looked(folder, outcome))
        except RuntimeError:
            pass  # the helpers have ended: the broker is stopping

    def _looked(self, folder: DataFolder, outcome: HelperOutcome[bool]) -> None:
        node = self._node
        if folder.failure is not None:
            del self._since_ms[folder]
        elif outcome.get():
            del self._since_ms[folder]
            if folder.shortage is not None:  # the next one has begun meanwhile
                self._begin(folder)
                return
            for partition in node.partitions:
                if partition.log.directory.parent == folder.path:
                    partition.flush_again()
            if self.assignments is not None:
                self.assignments.has_enough(folder.path)
        else:
            if node.clock.now_ms() - self._since_ms[folder] >= LASTS_MS and self.assignments is not None:
                self.assignments.runs_short(folder.path)
            self._look_later(folder)
