"""Formats a data folder: writes meta.properties, which says of which cluster and of which node it is.

Owner: the command line and `Cluster`, before a node starts. Files: as Apache Kafka's storage tool writes them."""

from __future__ import annotations

from pathlib import Path

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.meta_properties import FILE_NAME, MetaProperties, encode_properties, new_properties


def format_folder(folder: Path, node_id: int, cluster_id: str) -> MetaProperties:
    """Make a folder the data folder of a node, and return its properties. Raises BrokerStartError if it is one already."""
    disk = Disk()
    path = folder / FILE_NAME
    if path.exists():
        raise BrokerStartError(f"{folder} is formatted already; choose another folder with --data")
    properties = new_properties(node_id, cluster_id)
    try:
        disk.make_directory(folder)
        disk.write_atomically(path, encode_properties(properties))
    except OSError as error:
        raise BrokerStartError(f"cannot write {path}: {error.strerror or error}") from error
    return properties
