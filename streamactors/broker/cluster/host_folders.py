"""The data folder of several brokers of one host: a folder in it for each, named by number from 0 on.

Owner: `HostBrokers`, before its brokers start. The old folder of a single broker becomes folder 0 only when the user has asked for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.data_folder import HARMLESS, DataFolder
from streamactors.broker.log.folders.meta_properties import FILE_NAME as META_PROPERTIES

ADOPTING: Final = "adopting.properties"
"""What meta.properties is called while its folder is being moved. A folder without meta.properties is not the folder of a single broker."""


def prepare(folder: Path, processes: int, *, adopt: bool) -> None:
    """Make `folder` the data folder of this number of brokers. `adopt`: the data of a single broker in it becomes that of broker number 0.

    Raises BrokerStartError for the folder of a single broker without `adopt`, and for the folder of more brokers."""
    disk = Disk()
    try:
        disk.make_directory(folder)
        names = set(disk.names(folder))
        if META_PROPERTIES in names or ADOPTING in names:
            if not adopt:
                raise BrokerStartError(
                    f"{folder} is the data folder of a single broker; --adopt moves its data into {folder / '0'}, for the first of {processes} "
                    "brokers; or choose another with --data"
                )
            _adopt(disk, folder)
        elif adopt and "0" not in names:
            raise BrokerStartError(f"--adopt: {folder} is not the data folder of a broker; leave --adopt out")
        numbers = [int(name) for name in disk.names(folder) if _is_of_a_broker(folder, name)]
    except OSError as error:
        raise BrokerStartError(f"cannot use the data folder {folder}: {error.strerror or error}") from error
    if numbers and max(numbers) >= processes:
        raise BrokerStartError(
            f"{folder} has the data of {max(numbers) + 1} brokers; start it with --processes {max(numbers) + 1}, or move the partitions of the "
            f"others away and remove their folders, from {folder / str(processes)} on"
        )


def _is_of_a_broker(folder: Path, name: str) -> bool:
    return name.isdecimal() and (folder / name / META_PROPERTIES).exists()


def _adopt(disk: Disk, folder: Path) -> None:
    """Move everything into folder 0. The name of meta.properties changes first and comes back last, so the next start notices an interrupted move and continues it."""
    owner = DataFolder(disk, folder)
    owner.lock()
    try:
        if disk.exists(folder / META_PROPERTIES):
            disk.rename(folder / META_PROPERTIES, folder / ADOPTING)
            disk.sync_directory(folder)
        first = folder / "0"
        disk.make_directory(first)
        for name in disk.names(folder):
            if name not in HARMLESS and name not in (ADOPTING, first.name):
                os.rename(folder / name, first / name)
        disk.sync_directory(first)
        disk.rename(folder / ADOPTING, first / META_PROPERTIES)
        disk.sync_directory(first)
        disk.sync_directory(folder)
    finally:
        owner.unlock()
