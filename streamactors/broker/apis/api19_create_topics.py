"""CreateTopics: creates topics, each independently of the others.

Versions: 2-7 (4 partition and replica counts of -1 are the broker's defaults, 5 flexible, answers counts and settings,
7 topic ids).   Authorised: CREATE CLUSTER, or CREATE of each TOPIC;
counts and settings are answered to a principal with DESCRIBE_CONFIGS of the TOPIC.
Errors: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, THROTTLING_QUOTA_EXCEEDED (from version 6 on), POLICY_VIOLATION (more than 10,000 partitions),
INVALID_REQUEST.
Differs from Apache Kafka: answered when the partitions accept records, regardless of the timeout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.config.describe import describe_topic
from streamactors.broker.controller.command import CreateTopics, NewTopic, TopicCreated
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each


def handle(request: Request) -> Later:
    message = request.message
    everywhere = request.allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    allowed = [
        topic
        for topic in message.topics
        if everywhere or request.allowed(Operation.CREATE, ResourceType.TOPIC, topic.name)
    ]

    @request.answer_with
    def reply(created: Mapping[str, TopicCreated]) -> Body:
        names = dict.fromkeys(topic.name for topic in message.topics)
        return {"topics": [_result(request, name, created.get(name)) for name in names]}

    command = CreateTopics(
        tuple(map(_new_topic, allowed)), message.validate_only, request.spend(strict=request.version >= 6)
    )
    request.node.controller.submit(command, reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"topics": [{"name": topic.name, "error_code": code} for topic in request.message.topics]}


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=tuple((a.partition_index, tuple(a.broker_ids)) for a in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _result(request: Request, name: str, created: TopicCreated | None) -> dict[str, Any]:
    if created is None:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return {"name": name, "error_code": code, "error_message": "Authorization failed.", "configs": ()}
    code, message = created.outcome
    if code != ErrorCode.NONE:
        return {"name": name, "error_code": code, "error_message": message, "configs": ()}
    if not request.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return {
            "name": name,
            "topic_id": created.topic_id,
            "error_message": None,
            "configs": (),
            "topic_config_error_code": code,
        }
    return {
        "name": name,
        "topic_id": created.topic_id,
        "error_message": None,
        "num_partitions": created.partitions,
        "replication_factor": created.replication_factor,
        "configs": _configs(request, created) if request.version >= 5 else None,
    }


def _configs(request: Request, created: TopicCreated) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "value": created.configs.get(entry.name, entry.value),  # the client's own value if it set one
            "read_only": entry.read_only,
            "config_source": entry.source,
        }
        for entry in describe_topic(request.node.config, created.configs)
    ]


API: Final = Api(key=19, versions=(2, 7), authorise=each, handle=handle, refuse=refuse, forwarded=True)
