"""The operations that whoever asks may do on a resource, as the bit field of Metadata and the describe APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.broker.security import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from streamactors.broker.request import Request

NOT_ASKED: Final = -(2**31)  # what Kafka answers when the client did not ask for them
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
    """Return the bit field for the cluster."""
    return sum(
        1 << operation for operation in _CLUSTER if request.allowed(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    )
