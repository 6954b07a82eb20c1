"""What a consumer knows of its membership, whichever protocol runs it.

Owner: the consumer."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Identity(NamedTuple):
    """What a commit names: member id, instance id, generation or epoch, and the version of the commit request."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    version: int = 8


class GroupMetadata(NamedTuple):
    """The membership that a transactional producer commits with. confluent-kafka's is opaque, too."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


class Membership(Protocol):
    """A member of a group."""

    def identity(self) -> Identity:
        """Return who commits."""
        ...
