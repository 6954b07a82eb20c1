"""AlterReplicaLogDirs: moves a replica to a data folder, of which this broker has one.

Versions: 1-2 (2 flexible).   Authorised: ALTER CLUSTER.
Errors: LOG_DIR_NOT_FOUND (any other folder), UNKNOWN_TOPIC_OR_PARTITION.
Differs from Apache Kafka: there is one folder, so no replica moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Body:
    folder = str(request.node.logs.folder)
    return _answer(request, lambda path, topic, number: _code(request, path == folder, topic, number))


def refuse(request: Request, code: ErrorCode) -> Body:
    return _answer(request, lambda path, topic, number: code)


def _code(request: Request, is_here: bool, topic: str, number: int) -> ErrorCode:
    if not is_here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if request.node.partitions.get(topic, number) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


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
