"""The authoriser hook: who may do what.

Owner: the data plane asks, an `Authoriser` answers. `AllowAll` is what Kafka does without an authoriser. The functions
below are for the `authorise` of an `Api`: they return NONE, or the error that the whole request is refused with. Codes:
Kafka's AclOperation and ResourceType."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from streamactors.broker.errors import ErrorCode

if TYPE_CHECKING:
    from streamactors.broker.request import Request

ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"


class Operation(IntEnum):
    """What is to be done."""

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
    """What it is to be done to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authoriser(Protocol):
    """Decides. Called on the data plane for every request, so it must not block."""

    def allowed(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool: ...


class AllowAll:
    """Everybody may do everything."""

    def allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True


Authorise = Callable[["Request"], ErrorCode]


def anyone(request: Request) -> ErrorCode:
    """No right is needed."""
    return ErrorCode.NONE


def each(request: Request) -> ErrorCode:
    """The handler asks `request.allowed` for every resource by itself."""
    return ErrorCode.NONE


def _on_group(operation: Operation) -> Authorise:
    def authorise(request: Request) -> ErrorCode:
        allowed = request.allowed(operation, ResourceType.GROUP, request.message.group_id)
        return ErrorCode.NONE if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED

    return authorise


def _on_transactional_id(operation: Operation) -> Authorise:
    def authorise(request: Request) -> ErrorCode:
        allowed = request.allowed(operation, ResourceType.TRANSACTIONAL_ID, request.message.transactional_id)
        return ErrorCode.NONE if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    return authorise


def _on_cluster(operation: Operation) -> Authorise:
    def authorise(request: Request) -> ErrorCode:
        allowed = request.allowed(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    return authorise


read_group: Final = _on_group(Operation.READ)
describe_group: Final = _on_group(Operation.DESCRIBE)
delete_group: Final = _on_group(Operation.DELETE)
write_transactional_id: Final = _on_transactional_id(Operation.WRITE)
describe_transactional_id: Final = _on_transactional_id(Operation.DESCRIBE)
describe_cluster: Final = _on_cluster(Operation.DESCRIBE)
alter_cluster: Final = _on_cluster(Operation.ALTER)
create_cluster: Final = _on_cluster(Operation.CREATE)
alter_cluster_configs: Final = _on_cluster(Operation.ALTER_CONFIGS)
cluster_action: Final = _on_cluster(Operation.CLUSTER_ACTION)
idempotent_write: Final = _on_cluster(Operation.IDEMPOTENT_WRITE)
