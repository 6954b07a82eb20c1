"""DescribeLogDirs: the data folder, its free space and the size of every partition in it.

Versions: 1-4 (2 flexible, 3 error code, 4 total and usable bytes).   Authorised: DESCRIBE CLUSTER.
Errors: KAFKA_STORAGE_ERROR (the folder cannot be read).   Differs from Apache Kafka: there is always one folder."""

from __future__ import annotations

import os
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster


def handle(request: Request) -> Body:
    folder = request.node.logs.folder
    try:
        space = os.statvfs(folder)
    except OSError:
        return {"results": [{"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(folder), "topics": ()}]}
    return {
        "results": [
            {
                "error_code": ErrorCode.NONE,
                "log_dir": str(folder),
                "topics": _topics(request),
                "total_bytes": space.f_blocks * space.f_frsize,
                "usable_bytes": space.f_bavail * space.f_frsize,
            }
        ]
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"error_code": code, "results": ()}


def _topics(request: Request) -> list[dict[str, Any]]:
    asked = request.message.topics  # None stands for all topics, an empty list for none
    image = request.node.metadata.image
    if asked is None:
        wanted = {name: range(len(topic.partitions)) for name, topic in image.topics.items()}
    else:
        wanted = {topic.topic: topic.partitions for topic in asked}
    found = []
    for name, numbers in wanted.items():
        partitions = [(number, request.node.partitions.get(name, number)) for number in numbers]
        sizes = [(number, partition.log.size_bytes) for number, partition in partitions if partition is not None]
        if sizes:
            found.append({"name": name, "partitions": [_size(number, size) for number, size in sizes]})
    return found


def _size(number: int, size: int) -> dict[str, Any]:
    return {"partition_index": number, "partition_size": size, "offset_lag": 0, "is_future_key": False}


API: Final = Api(key=35, versions=(1, 4), authorise=describe_cluster, handle=handle, refuse=refuse)
