"""`Acl`: one access control entry, for `Cluster(acls=[…])`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from streamactors.broker.errors import BrokerStartError

_WORDS: Final[Mapping[str, list[str]]] = {
    "operation": [
        "ALL",
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "CREATE_TOKENS",
        "DESCRIBE_TOKENS",
        "TWO_PHASE_COMMIT",
    ],
    "resource": ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"],
    "pattern": ["LITERAL", "PREFIXED"],
    "permission": ["ALLOW", "DENY"],
}
CLUSTER: Final = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may do what on which resource, in Kafka's words."""

    principal: str
    """`User:NAME`, or a name alone."""
    operation: str
    """READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, …, ALL."""
    resource: str
    """TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER."""
    name: str = CLUSTER
    """The name of the resource. `*` means every resource."""
    pattern: str = "LITERAL"
    """LITERAL, or PREFIXED for every resource whose name begins with `name`."""
    permission: str = "ALLOW"
    """ALLOW or DENY."""
    host: str = "*"
    """The address of the client. `*` means every address."""

    def __post_init__(self) -> None:
        for name in ("principal", "operation", "resource", "name", "pattern", "permission", "host"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise BrokerStartError(
                    f"Acl: {name} is {value!r}; it is a string, as in Acl('ann', 'READ', 'TOPIC', 'orders')"
                )
        for name, words in _WORDS.items():
            value = getattr(self, name)
            if value.upper() not in words:
                raise BrokerStartError(f"Acl: {name} is {value!r}; it is one of {', '.join(words)}")
            object.__setattr__(self, name, value.upper())
        if self.name == CLUSTER and self.resource != "CLUSTER":
            raise BrokerStartError(f"Acl: a {self.resource} needs a name; '*' means every one")

    def as_words(self) -> dict[str, str]:
        """Return the fields as words."""
        return {key: str(value) for key, value in asdict(self).items()}
