"""What a consumer knows of its membership, whichever protocol runs it.

Owner: the consumer."""

from __future__ import annotations

from collections.abc import Sequence
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

    @property
    def is_subscribed(self) -> bool:
        """Whether it is a member, or wants to be one."""
        ...

    def identity(self) -> Identity:
        """Return who commits."""
        ...

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join, or read other topics. A name that begins with ^ is a regular expression."""
        ...

    def unsubscribe(self) -> None:
        """Give everything back at the next poll, and leave."""
        ...

    def polled(self, *, inside: bool) -> None:
        """The application polls: it is alive. `inside`: it waits in a poll from now on."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether it has given everything back and left."""
        ...
