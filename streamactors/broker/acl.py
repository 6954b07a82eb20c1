"""`Acl`: one access control entry, for `Cluster(acls=[…])`."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may do what on which resource, in Kafka's words.

    `principal` is `User:NAME`, or a name alone; `operation` READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, …, ALL; `resource` TOPIC, GROUP,
    CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER; `pattern` LITERAL, or PREFIXED for every resource whose name begins with `name`;
    `permission` ALLOW or DENY. `name` `*` means every resource."""

    principal: str
    operation: str
    resource: str
    name: str = "kafka-cluster"
    pattern: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"

    def as_words(self) -> dict[str, str]:
        """Return the fields as words."""
        return {key: str(value) for key, value in asdict(self).items()}
