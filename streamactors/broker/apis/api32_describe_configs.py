"""DescribeConfigs: the settings of topics, of groups, of client metrics and of this broker, with the source and the synonyms of each value.

Versions: 1-4 (1 sources and synonyms, 3 types and documentation, 4 flexible).
Authorised: DESCRIBE_CONFIGS of each TOPIC and GROUP, DESCRIBE_CONFIGS CLUSTER for brokers and client metrics.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
Differs from Apache Kafka: lists only the settings that this broker implements, by name; no loggers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamactors.broker.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from streamactors.broker.config.setting import SettingType
from streamactors.broker.errors import BrokerError, ErrorCode, Refusal
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from streamactors.broker.metadata.topic_name import check_topic_name
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each


def handle(request: Request) -> Body:
    return {"results": [_result(request, resource) for resource in request.message.resources]}


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"results": [_refused(resource, code, None) for resource in request.message.resources]}


def _result(request: Request, resource: Any) -> dict[str, Any]:
    try:
        entries = sorted(_entries(request, resource), key=lambda entry: entry.name)
    except BrokerError as error:
        return _refused(resource, error.code, str(error))
    wanted = frozenset(resource.configuration_keys or ())
    message = request.message
    return {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [
            _config(entry, message.include_synonyms, message.include_documentation)
            for entry in entries
            if not wanted or entry.name in wanted
        ],
    }


def _entries(request: Request, resource: Any) -> Iterator[ConfigEntry]:
    node = request.node
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        if not request.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        check_topic_name(name)
        image = node.metadata.image
        if name not in image.topics:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(node.config, image.topic_overrides(name))
    if resource.resource_type == GROUP_RESOURCE:
        if not request.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name):
            raise Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(node.config, node.metadata.image.configs.get((GROUP_RESOURCE, name), {}))
    if resource.resource_type not in (BROKER_RESOURCE, CLIENT_METRICS_RESOURCE):
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Resource type {resource.resource_type} cannot be described: only topics ({TOPIC_RESOURCE}), brokers "
            f"({BROKER_RESOURCE}), client metrics ({CLIENT_METRICS_RESOURCE}) and groups ({GROUP_RESOURCE})",
        )
    if not request.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(node.metadata.image.configs.get((CLIENT_METRICS_RESOURCE, name), {}))
    if not name:
        return describe_cluster_defaults(node.config)
    if not name.removeprefix("-").isdecimal():
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
        )
    return describe_broker(node.config)


def _config(entry: ConfigEntry, with_synonyms: bool, documented: bool) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "is_sensitive": entry.kind is SettingType.PASSWORD,
        "config_source": entry.source,
        "synonyms": [synonym._asdict() for synonym in entry.synonyms] if with_synonyms else (),
        "config_type": entry.kind,
        "documentation": entry.doc if documented else None,
    }


def _refused(resource: Any, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": (),
    }


API: Final = Api(key=32, versions=(1, 4), authorise=each, handle=handle, refuse=refuse, on_controllers=True)
