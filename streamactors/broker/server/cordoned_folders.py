"""Keeps the cordoned data folders of a broker as its settings name them, and has the controller know them (KIP-1066).

Owner: the publisher of the metadata; on the data plane's thread."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamactors.broker.controller.cluster_command import FoldersCordoned
from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.rules.folder_rules import FIRST_WITH_CORDONED
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

Tell = Callable[[FoldersCordoned, Callable[[Outcome], object]], object]


class CordonedFolders:
    """Follows the settings and the level of metadata.version."""

    def __init__(self, node: Runtime, tell: Tell | None) -> None:
        """`tell` submits a command to the controller of this node. None: the heartbeats of this broker name the folders."""
        self._node = node
        self._tell = tell
        self._told: tuple[int, tuple[uuid.UUID, ...]] | None = None
        """The broker epoch and the folders that the controller was told last."""

    def follow(self, image: MetadataImage) -> None:
        """Use the folders of the present settings. They are told to the controller if it knows others."""
        node = self._node
        folders = node.logs.folders
        if image.features.get(METADATA_VERSION, 0) < FIRST_WITH_CORDONED:
            folders.cordoned = frozenset()
            return
        folders.cordoned = folders.named(node.config.cordoned_log_dirs)
        own = image.brokers.get(node.node_id)
        if own is None:
            return
        now = own.broker_epoch, folders.cordoned_ids
        if own.cordoned is not None and set(own.cordoned) == set(now[1]):
            self._told = now
        elif self._tell is not None and self._told != now:
            self._told = now
            self._tell(FoldersCordoned(node.node_id, now[1]), self._answered)

    def _answered(self, outcome: Outcome) -> None:
        if outcome.code:
            self._told = None  # the next image tries again
