"""The authoriser, and the checks of rights for `Api.authorise`.

Owner: the data plane calls an `Authoriser`. `AllowAll` is the behaviour of Kafka without an authoriser. A check returns NONE, or the
error that refuses the whole request. The codes are those of Kafka's AclOperation and ResourceType."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.broker.errors import ErrorCode

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request

ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"


ANY_PATTERN: Final = 1
MATCHING_PATTERN: Final = 2
LITERAL: Final = 3
PREFIXED: Final = 4
"""Kafka's codes of the patterns of access control entries and their filters."""

NOT_ALLOWED: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""The texts of refusals, in Kafka's words."""


class Operation(IntEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """A kind of resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authoriser(Protocol):
    """Grants rights. Called on the data plane for every request, so it must not block."""

    def allowed(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool: ...

    def allowed_on_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool: ...


class AllowAll:
    """Grants every right."""

    def allowed_on_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        return True

    def allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True


Authorise = Callable[["Request"], ErrorCode]


def anyone(request: Request) -> ErrorCode:
    """No right is required."""
    return ErrorCode.NONE


def each(request: Request) -> ErrorCode:
    """The handler calls `request.allowed` for every resource."""
    return ErrorCode.NONE


def _right(
    resource_type: ResourceType, denied: ErrorCode, name_of: Callable[[Any], str], operation: Operation
) -> Authorise:
    """Return a function that requires one operation on the resource that the request's message names."""

    def authorise(request: Request) -> ErrorCode:
        allowed = request.allowed(operation, resource_type, name_of(request.message))
        return ErrorCode.NONE if allowed else denied

    return authorise


_on_group: Final = partial(
    _right, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, lambda message: message.group_id
)
_on_transactional_id: Final = partial(
    _right,
    ResourceType.TRANSACTIONAL_ID,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    lambda message: message.transactional_id,
)
_on_cluster: Final = partial(
    _right, ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, lambda message: CLUSTER_NAME
)

read_group: Final = _on_group(Operation.READ)
delete_group: Final = _on_group(Operation.DELETE)
write_transactional_id: Final = _on_transactional_id(Operation.WRITE)
describe_cluster: Final = _on_cluster(Operation.DESCRIBE)
describe_cluster_configs: Final = _on_cluster(Operation.DESCRIBE_CONFIGS)
alter_cluster: Final = _on_cluster(Operation.ALTER)
alter_cluster_configs: Final = _on_cluster(Operation.ALTER_CONFIGS)
cluster_action: Final = _on_cluster(Operation.CLUSTER_ACTION)
