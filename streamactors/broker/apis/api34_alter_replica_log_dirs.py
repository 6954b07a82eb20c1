"""AlterReplicaLogDirs: moves a replica to another data folder of this broker, or chooses the folder of one that is to be created (KIP-113).

Versions: 1-2 (2 flexible).   Authorised: ALTER CLUSTER.
Errors: LOG_DIR_NOT_FOUND (this broker has no such folder), UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE (the replica is not here
yet; it will be created in the folder), KAFKA_STORAGE_ERROR (a folder has failed), INVALID_TOPIC_EXCEPTION (the name of the topic is too long
for the folder of a copy), INVALID_REPLICA_ASSIGNMENT (the folder is cordoned).
Differs from Apache Kafka: a move that is interrupted by a stop of the broker begins again at the next start, and does not continue its copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.folders.folder_names import can_have_future
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster

MOST_PREFERENCES: Final = 10_000
"""The largest number of folders that are remembered for partitions that do not exist yet. A partition that is created here uses up its own."""


def handle(request: Request) -> Body:
    return _answer(request, lambda path, topic, number: _code(request, Path(path), topic, number))


def refuse(request: Request, code: ErrorCode) -> Body:
    return _answer(request, lambda path, topic, number: code)


def _code(request: Request, path: Path, topic: str, number: int) -> ErrorCode:
    node = request.node
    folder = node.logs.folders.of_path(path)
    if folder is None or folder not in node.logs.folders.for_partitions:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if folder.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if path in node.logs.folders.cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition = node.partitions.get(topic, number)
    if partition is not None:
        if partition.lost:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not can_have_future(topic, number):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if node.folder_moves is not None:
            node.folder_moves.move(partition, path)
        return ErrorCode.NONE
    known = node.metadata.image.topics.get(topic)
    if known is None or number >= len(known.partitions):
        if len(node.logs.folders.preferred) < MOST_PREFERENCES:
            node.logs.folders.preferred[topic, number] = path
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.logs.folders.preferred[topic, number] = path  # the tool asks before the broker learns of the new replica
    return ErrorCode.REPLICA_NOT_AVAILABLE


def _answer(request: Request, code_of: Callable[[str, str, int], ErrorCode]) -> Body:
    results: dict[str, list[dict[str, int]]] = {}
    for folder in request.message.dirs:
        for topic in folder.topics:
            results.setdefault(topic.name, []).extend(
                {"partition_index": number, "error_code": code_of(folder.path, topic.name, number)}
                for number in topic.partitions
            )
    return {"results": [{"topic_name": name, "partitions": found} for name, found in results.items()]}


API: Final = Api(key=34, versions=(1, 2), authorise=alter_cluster, handle=handle, refuse=refuse)
