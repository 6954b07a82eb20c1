"""Formats a data folder. meta.properties names its cluster and node; bootstrap.checkpoint has the features with which the cluster begins. The
snapshot 0-0 of the metadata log names the voters of the quorum, where the log keeps them (kraft.version 1).

Owner: the command line and `Cluster`, before a node starts; a controller reads the features. Files: as Apache Kafka's storage tool writes them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from streamactors.broker.controller.rules.elr_rules import ELR_VERSION
from streamactors.broker.controller.rules.feature_rules import (
    FIRST_WITH_ELR,
    KRAFT_VERSION,
    NEWEST_METADATA_VERSION,
    SUPPORTED,
)
from streamactors.broker.controller.rules.registration import new_topic_id
from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.data_folder import HARMLESS
from streamactors.broker.log.folders.meta_properties import (
    FILE_NAME,
    MetaProperties,
    decode_properties,
    encode_properties,
)
from streamactors.broker.log.partition_metadata import decode_uuid, encode_uuid
from streamactors.broker.metadata.image import METADATA_VERSION
from streamactors.broker.metadata.metadata_record import FeatureLevel
from streamactors.broker.metadata.snapshot import BOOTSTRAP_FILE, encode_snapshot, snapshot_name
from streamactors.broker.quorum.voter_set import VoterSet
from streamactors.broker.server.stored_quorum import METADATA_FOLDER


def new_cluster_id() -> str:
    """Return a random id for a new cluster."""
    return encode_uuid(new_topic_id())


def format_folder(
    folder: Path,
    node_id: int,
    cluster_id: str,
    features: Mapping[str, int] | None = None,
    voters: VoterSet | None = None,
) -> MetaProperties:
    """Make a folder the data folder of a node, and return its properties. `features` are levels by name.

    `voters` are those with which the metadata log begins. A node that is one of them gets the folder's id from there. Raises BrokerStartError
    for a folder that is formatted already or has other files, and for an invalid id or feature."""
    _check_cluster_id(cluster_id)
    if node_id < 0:
        raise BrokerStartError(f"node id {node_id}: it must be 0 or more")
    levels = _levels(features or {})
    disk = Disk()
    path = folder / FILE_NAME
    try:
        disk.make_directory(folder)
        found = [name for name in disk.names(folder) if name not in HARMLESS]
        if FILE_NAME in found:
            raise BrokerStartError(f"{folder} is formatted already; choose another folder with --data")
        if found:
            raise BrokerStartError(f"{folder} has {found[0]}; choose an empty folder, or a new one, with --data")
        own = None if voters is None else voters.voter(node_id)
        directory_id = new_topic_id() if own is None else own.directory_id
        properties = MetaProperties(cluster_id, node_id, directory_id, own=True)
        now_ms = int(time.time() * 1000)
        disk.write_atomically(folder / BOOTSTRAP_FILE, encode_snapshot(levels, 0, now_ms))
        if voters is not None:
            log = folder / METADATA_FOLDER
            disk.make_directory(log)
            disk.write_atomically(log / snapshot_name(0, 0), encode_snapshot((), 0, now_ms, voters.records()))
        disk.write_atomically(
            path, encode_properties(properties)
        )  # last: without it the folder counts as not formatted
    except OSError as error:
        raise BrokerStartError(f"cannot format {folder}: {error.strerror or error}") from error
    return properties


def read_folder(folder: Path) -> MetaProperties | None:
    """Return the properties of a data folder, None if it is not formatted. Raises BrokerStartError if they are damaged."""
    path = folder / FILE_NAME
    try:
        return decode_properties(Disk().read(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise BrokerStartError(f"{path} cannot be read: {error}") from error


def _check_cluster_id(cluster_id: str) -> None:
    try:
        valid = encode_uuid(decode_uuid(cluster_id)) == cluster_id and decode_uuid(cluster_id) != uuid.UUID(int=0)
    except ValueError:
        valid = False
    if not valid:
        raise BrokerStartError(
            f"cluster id {cluster_id!r}: it is 22 characters of base64url, such as {new_cluster_id()}; "
            "streamactors storage random-uuid makes one"
        )


def _levels(features: Mapping[str, int]) -> Iterable[FeatureLevel]:
    known = {each.name: each for each in SUPPORTED if each.name != KRAFT_VERSION}
    levels = default_levels(features.get(METADATA_VERSION, NEWEST_METADATA_VERSION))
    levels.pop(KRAFT_VERSION, None)  # the voters in the log say it
    asked = {**levels, **features}
    for name, level in asked.items():
        if name not in known:
            raise BrokerStartError(f"feature {name}={level}: streamactors controllers have only {', '.join(known)}")
        _, low, high = known[name]
        if not low <= level <= high:
            raise BrokerStartError(f"feature {name}={level}: choose {low} to {high}")
    if asked.get(ELR_VERSION) and asked[METADATA_VERSION] < FIRST_WITH_ELR:
        raise BrokerStartError(
            f"feature {ELR_VERSION}=1 needs {METADATA_VERSION}={FIRST_WITH_ELR} or more; add --feature {METADATA_VERSION}={NEWEST_METADATA_VERSION}"
        )
    return [FeatureLevel(name, level) for name, level in asked.items() if level]
