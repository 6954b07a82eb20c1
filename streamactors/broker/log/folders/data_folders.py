"""The data folders of one broker: they are opened together, belong to one node of one cluster, and divide the partitions.

Owner: LogManager. The first folder has the metadata log. A new partition goes to the folder that the metadata of the cluster names, or to the
one with the fewest partitions. Rules: Apache Kafka's log.dirs, KIP-112 and KIP-858."""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.folders.folder_ids import UNASSIGNED_FOLDER
from streamactors.broker.log.folders.meta_properties import MetaProperties

METADATA_LOG: Final = "__cluster_metadata-0"
EVERY_FOLDER: Final = "*"


class Folders:
    """The folders in the order of log.dirs; `first` is the one with the metadata log."""

    def __init__(self, disk: Disk, paths: Sequence[Path], *, metadata_apart: bool = False) -> None:
        """`metadata_apart`: the first folder has the metadata log alone, and no partitions."""
        self._disk = disk
        self.all: Final = tuple(DataFolder(disk, path) for path in paths)
        self.first: Final = self.all[0]
        self.for_partitions: Final = self.all[1:] if metadata_apart else self.all
        self.preferred: dict[tuple[str, int], Path] = {}
        """The folders that AlterReplicaLogDirs has chosen for partitions that do not exist yet."""
        self.cordoned: frozenset[Path] = frozenset()
        """The folders that get no new partition, while another one can (KIP-1066)."""

    def open(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        """Lock every folder, create the new ones, and return the properties of the first. Raises BrokerStartError; no folder is locked then."""
        self._check_metadata()
        opened: list[DataFolder] = []
        try:
            properties = self.first.open(node_id, cluster_id)
            opened.append(self.first)
            for folder in self.all[1:]:
                try:
                    own = folder.open(properties.node_id, properties.cluster_id)
                except BrokerStartError as error:
                    if not isinstance(error.__cause__, OSError):
                        raise
                    folder.failure = error.__cause__
                    tell_left_out(folder, error.__cause__)
                    continue
                opened.append(folder)
                self._check(folder, own, properties)
            if len(self.all) > 1:
                self._name_all()
            self.check_usable()
        except BrokerStartError:
            for folder in opened:
                folder.unlock()
            raise
        return properties._replace(directory_id=self.first.directory_id)

    def _check(self, folder: DataFolder, own: MetaProperties, first: MetaProperties) -> None:
        """Raise BrokerStartError if a folder does not belong to the node of the first one."""
        if own.node_id != first.node_id:
            raise BrokerStartError(
                f"the data folder {folder.path} is of node {own.node_id}, and {self.first.path} is of node {first.node_id}; "
                "name only the folders of one node in log.dirs"
            )

    def check_usable(self) -> None:
        """Raise BrokerStartError if no folder for partitions works."""
        if not self.usable:
            failed = ", ".join(f"{each.path}: {each.failure}" for each in self.for_partitions)
            raise BrokerStartError(f"no data folder for partitions can be used ({failed}); repair one of them")

    def _check_metadata(self) -> None:
        """Raise BrokerStartError if a folder that is not the first has a metadata log."""
        for folder in self.all[1:]:
            with suppress(OSError):  # a folder that cannot be read has failed, which `open` says
                if not self._disk.exists(folder.path / METADATA_LOG):
                    continue
                raise BrokerStartError(
                    f"{folder.path} has a metadata log, and {self.first.path} is the folder for it; name {folder.path} first in log.dirs, or "
                    f"in metadata.log.dir, or remove {folder.path / METADATA_LOG}"
                )

    def _name_all(self) -> None:
        """Give each folder an id that has none, and raise BrokerStartError if two have the same."""
        named: dict[uuid.UUID, DataFolder] = {}
        for folder in self.working:
            if folder.directory_id is None:
                folder.give_id()
            assert folder.directory_id is not None
            twin = named.setdefault(folder.directory_id, folder)
            if twin is not folder:
                raise BrokerStartError(
                    f"the data folders {twin.path} and {folder.path} have the same directory.id: one is a copy of the other; "
                    "name only one of them in log.dirs"
                )

    def unlock(self) -> None:
        """Unlock every folder."""
        for folder in self.all:
            folder.unlock()

    @property
    def ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the folders that work, for the registration of the broker."""
        return tuple(each.directory_id for each in self.usable if each.directory_id is not None)

    @property
    def cordoned_ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the cordoned folders, in the order of log.dirs."""
        return tuple(
            each.directory_id for each in self.for_partitions if each.path in self.cordoned and each.directory_id
        )

    def named(self, words: Sequence[str]) -> frozenset[Path]:
        """Return the folders that cordoned.log.dirs names. Others are not looked at: `why_not_cordoned` refuses them."""
        if words and words[0] == EVERY_FOLDER:
            return frozenset(each.path for each in self.for_partitions)
        wanted = {Path(each).expanduser().absolute() for each in words}
        return frozenset(each.path for each in self.for_partitions if each.path.absolute() in wanted)

    def why_not_cordoned(self, words: Sequence[str]) -> str | None:
        """Return why cordoned.log.dirs cannot have this value, None if it can. The sentences are Apache Kafka's."""
        if EVERY_FOLDER in words:
            more = len(words) > 1
            return (
                f"When cordoned.log.dirs is set to {EVERY_FOLDER}, it must not contain other values" if more else None
            )
        known = {each.path.absolute() for each in self.for_partitions}
        missing = [each for each in words if Path(each).expanduser().absolute() not in known]
        if not missing:
            return None
        return (
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {','.join(missing)}"
        )

    @property
    def usable(self) -> tuple[DataFolder, ...]:
        """The folders for partitions that have not failed."""
        return tuple(each for each in self.for_partitions if each.failure is None)

    @property
    def working(self) -> tuple[DataFolder, ...]:
        """The folders that have not failed."""
        return tuple(each for each in self.all if each.failure is None)

    @property
    def failed_ids(self) -> tuple[uuid.UUID, ...]:
        """The known ids of the folders that have failed."""
        return tuple(each.directory_id for each in self.all if each.failure is not None and each.directory_id)

    @property
    def are_clean(self) -> bool:
        """Whether each folder is new, or its last broker was shut down cleanly."""
        return all(each.was_clean for each in self.working)

    @property
    def previous_epoch(self) -> int:
        """The broker epoch under which the last broker left its cluster in order; -1 if the folders do not all say the same."""
        epochs = {each.previous_epoch for each in self.working if not each.is_new}
        return epochs.pop() if len(epochs) == 1 else -1

    def of_path(self, path: Path) -> DataFolder | None:
        """Return the folder at a path, None if there is none."""
        return next((each for each in self.all if each.path == path), None)

    def may_have_failed(self, directory_id: uuid.UUID | None) -> bool:
        """Whether a replica with this folder in the metadata may be in a failed folder. The id of a failed folder may be unknown, so any id
        that no working folder has counts."""
        if len(self.working) == len(self.all) or directory_id == UNASSIGNED_FOLDER:
            return False
        return all(each.directory_id != directory_id for each in self.working)

    def place(
        self,
        topic: str,
        partition: int,
        directory_id: uuid.UUID | None,
        partitions: Mapping[Path, int],
        full: Container[Path] = (),
    ) -> DataFolder:
        """Return the folder for a new partition. `partitions` is how many each folder has; `full` are the folders without room.

        Raises StorageError if the partition may be in a folder that has failed: a new log would be empty."""
        if len(self.all) == 1 or f"{topic}-{partition}" == METADATA_LOG:
            return self.first
        asked = self.preferred.pop((topic, partition), None)
        usable = [each for each in self.usable if each.path not in full]
        for folder in usable:
            if folder.path == asked or (
                asked is None and directory_id is not None and folder.directory_id == directory_id
            ):
                return folder
        if self.may_have_failed(directory_id) or not usable:
            failed = ", ".join(str(each.path) for each in self.all if each.failure is not None)
            raise StorageError(
                f"{topic}-{partition} is not created: it may be in {failed}, which has failed; repair the disk and restart the broker"
            )
        open_to_new = [each for each in usable if each.path not in self.cordoned] or usable
        return min(open_to_new, key=lambda each: partitions.get(each.path, 0))


def tell_left_out(folder: DataFolder, error: OSError) -> None:
    """Log that the broker starts without a folder."""
    why = error.strerror or error
    logger.error("the data folder %s has failed: %s; the broker starts without the partitions in it", folder.path, why)
