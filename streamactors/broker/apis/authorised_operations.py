"""The client's authorised operations on a resource, as the bit field of Metadata and the describe APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request

NOT_ASKED: Final = -(2**31)  # Kafka's value if the client did not request them
_TOPIC: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
_GROUP: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


def on_topic(request: Request, name: str) -> int:
    """Return the bit field for a topic."""
    return sum(1 << operation for operation in _TOPIC if request.allowed(operation, ResourceType.TOPIC, name))


def on_group(request: Request, name: str) -> int:
    """Return the bit field for a group."""
    return sum(1 << operation for operation in _GROUP if request.allowed(operation, ResourceType.GROUP, name))


def on_cluster(request: Request) -> int:
    """Return the bit field for the cluster; as in Apache Kafka nothing without the right to describe it."""
    if not request.allowed(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return sum(
        1 << operation for operation in _CLUSTER if request.allowed(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    )
