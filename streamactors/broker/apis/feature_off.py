"""The answers of APIs whose feature is off, or which this broker does not have: UNSUPPORTED_VERSION, as Apache Kafka answers.

A client that finds no such API in ApiVersions may wait in silence: librdkafka with group.protocol=consumer did so. A client that is refused says why."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from streamactors.broker.requests.api import Body
from streamactors.broker.requests.request import Request

OFF: Final = ErrorCode.UNSUPPORTED_VERSION
OFF_MESSAGE: Final = "The version of API is not supported."


def has_share_groups(request: Request) -> bool:
    """Whether the cluster has share groups (share.version 1)."""
    return request.node.metadata.image.features.get(SHARE_VERSION, 0) >= 1


def not_supported(_: Request) -> Body:
    """Return an answer with one error."""
    return {"error_code": OFF}


def groups_not_supported(request: Request) -> Body:
    """Return a description with an error for each group."""
    return {"groups": [{**_NO_GROUP, "group_id": each} for each in request.message.group_ids]}


_NO_GROUP: Final = {"error_code": OFF, "authorized_operations": NOT_ASKED}


def streams_enabled(request: Request) -> bool:
    """Whether the cluster has streams groups of KIP-1071."""
    return request.node.metadata.image.features.get(STREAMS_VERSION, 0) >= 1


def groups_enabled(request: Request) -> bool:
    """Whether the cluster has consumer groups of KIP-848."""
    return request.node.metadata.image.features.get(GROUP_VERSION, 0) >= 1
