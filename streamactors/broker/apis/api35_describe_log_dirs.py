"""DescribeLogDirs: the data folders, their free space and the size of every partition in them.

Versions: 1-5 (2 flexible, 3 error code, 4 total and usable bytes, 5 cordoned folders KIP-1066).   Authorised: DESCRIBE CLUSTER.
Errors: KAFKA_STORAGE_ERROR (a folder has failed, or is short of space or descriptors).   Differs from Apache Kafka: a folder that is full
is described with its partitions, because they can be read. Folders that end in -stray are listed with the partitions, as topics of their names
with one partition, if all topics are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster


def handle(request: Request) -> Body:
    found = _partitions(request)
    return {
        "results": [
            _folder(each, found.get(each.path, {}), each.path in request.node.logs.folders.cordoned)
            for each in request.node.logs.folders.for_partitions
        ]
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"error_code": code, "results": ()}


def _folder(folder: DataFolder, topics: Mapping[str, list[dict[str, Any]]], is_cordoned: bool) -> dict[str, Any]:
    path = folder.path
    broken = {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(path), "topics": ()}
    if folder.failure is not None:
        return broken
    try:
        space = os.statvfs(path)
    except OSError:
        return broken
    return {
        "error_code": ErrorCode.NONE if folder.shortage is None else ErrorCode.KAFKA_STORAGE_ERROR,
        "log_dir": str(path),
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": space.f_blocks * space.f_frsize,
        "usable_bytes": space.f_bavail * space.f_frsize,
        "is_cordoned": is_cordoned,
    }


def _partitions(request: Request) -> dict[Path, dict[str, list[dict[str, Any]]]]:
    """Return the partitions that were asked for, by folder and topic."""
    asked = request.message.topics  # None means all topics, an empty list none
    image = request.node.metadata.image
    if asked is None:
        wanted = {name: range(len(topic.partitions)) for name, topic in image.topics.items()}
    else:
        wanted = {topic.topic: topic.partitions for topic in asked}
    found: dict[Path, dict[str, list[dict[str, Any]]]] = {}
    for name, numbers in wanted.items():
        for number in numbers:
            partition = request.node.partitions.get(name, number)
            if partition is None:
                continue
            log = partition.log
            found.setdefault(log.directory.parent, {}).setdefault(name, []).append(_described(log))
            moves = request.node.folder_moves
            future = None if moves is None else moves.future_of(partition)
            if future is not None:
                found.setdefault(future.folder, {}).setdefault(name, []).append(_described(future.log, future.left))
    if asked is None:
        for stray in request.node.logs.strays:
            found.setdefault(stray.path.parent, {})[stray.path.name] = [_entry(0, stray.size_bytes)]
    return found


def _described(log: PartitionLog, lag: int | None = None) -> dict[str, Any]:
    return _entry(log.partition, log.size_bytes, lag)


def _entry(partition: int, size_bytes: int, lag: int | None = None) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "partition_size": size_bytes,
        "offset_lag": lag or 0,
        "is_future_key": lag is not None,
    }


API: Final = Api(key=35, versions=(1, 5), authorise=describe_cluster, handle=handle, refuse=refuse)
