"""Missing rights: which operation on which resource a user lacks, and the command that allows it.

Owner: the clients, which know what they asked for; the broker's error names only the kind of the resource. Kafka's implied operations hold:
who may READ, WRITE, DELETE or ALTER may DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

DENIED: Final[Mapping[int, str]] = {29: "TOPIC", 30: "GROUP", 31: "CLUSTER", 53: "TRANSACTIONAL_ID"}
"""Kafka's error codes of a missing right, with the kind of the resource."""
REFUSED_PARTITION: Final = re.compile(r'Failed to add partition "([^"]+)".*Topic authorization failed')
"""A line of librdkafka's log: the only place that names the topic which a transaction must not write."""


class Right(NamedTuple):
    """An operation on a resource; `name` is empty where it is not known."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        kind = self.resource.lower().replace("_", " ")
        name = f" {self.name}" if self.name and self.resource != "CLUSTER" else ""
        return f"{self.operation} {'the ' if not name else ''}{kind}{name}"

    def command(self, user: str) -> str:
        """Return the arguments of `streamactors` that give a user this right."""
        name = "" if self.resource == "CLUSTER" else f" {self.name or 'NAME'}"
        return f"acls add {user or 'USER'} {self.operation.lower()} {self.resource.lower()}{name}"


def not_allowed(user: str, servers: str, rights: Iterable[Right]) -> str:
    """Return the sentence that a user lacks rights, and how an administrator gives them."""
    missing = list(dict.fromkeys(rights))
    who = f"user {user}" if user else "this client's user"
    commands = "; ".join(f"streamactors {right.command(user)}" for right in missing)
    return f"{who} may not {', '.join(map(str, missing))} at {servers}; an administrator allows it with: {commands}"


def of_producer(kind: str, transactional_id: str, topic: str) -> Right:
    """Return the right that a producer needs on a kind of resource."""
    if kind == "GROUP":
        return Right("READ", "GROUP", "")  # of the consumer whose positions the transaction commits
    if kind == "TRANSACTIONAL_ID":
        return Right("WRITE", kind, transactional_id)
    return Right("WRITE", "TOPIC", topic) if kind == "TOPIC" else Right("IDEMPOTENT_WRITE", kind, "")
