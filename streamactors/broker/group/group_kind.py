"""What a coordinator asks of a group of any kind. Group ids are shared: one map holds classic, consumer, share and streams groups.

Owner: `GroupShard`. A kind is a package beside `classic/`. It has its values, its pure state machine and its `GroupKind`, which runs
the machine for the shard; `record_folds.py` names the records of the kind.
Source: KIP-848, KIP-932, KIP-1071; Apache Kafka's Group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from streamactors.broker.coordinator.coordinator_log import KeyValue
    from streamactors.broker.errors import ErrorCode
    from streamactors.broker.group.group_messages import CommitOffsets


class GroupType(Enum):
    """The kind of a group. The values are the names in ListGroups answers."""

    CLASSIC = "classic"  # a leader among the members assigns the partitions
    CONSUMER = "consumer"  # KIP-848: the coordinator assigns the partitions
    SHARE = "share"  # KIP-932: members share partitions, record by record
    STREAMS = "streams"  # KIP-1071: the coordinator assigns tasks of a topology


class CoordinatedGroup(Protocol):
    """A group of any kind: an immutable value."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """Return the name of the state, as ListGroups answers it."""

    @property
    def listed_protocol(self) -> str:
        """Return the protocol type, as ListGroups answers it."""


class GroupKind(Protocol):
    """Runs the groups of one kind for a shard. `group` is always a group of this kind."""

    @property
    def group_type(self) -> GroupType: ...

    @property
    def serves(self) -> Mapping[type, Callable[[Any], object]]:
        """The function that serves each type of message."""

    # -- life ---

    def loaded(self, group_id: str) -> None:
        """Start the timers of a group that was read from the log."""

    def resigned(self, group_id: str) -> None:
        """Answer the parked requests of a group with NOT_COORDINATOR."""

    def deleted(self, group_id: str) -> None:
        """Refuse members from now on: the tombstones of the group are being written."""

    def timer_due(self, group_id: str, event: Any) -> None:
        """Serve a timer of a group."""

    # -- questions ---

    def is_visible(self, group: Any) -> bool:
        """Whether clients can see the group."""

    def is_unused(self, group: Any) -> bool:
        """Whether the group has no members, so that it goes when its last offset has expired."""

    def is_gone(self, group: Any) -> bool:
        """Whether the group is deleted, but still in the map."""

    def check_delete(self, group: Any) -> ErrorCode:
        """Return NONE if the group may be deleted."""

    def tombstones(self, group: Any) -> Sequence[KeyValue]:
        """Return the records that delete the group."""

    # -- offsets ---

    def check_commit(self, group: Any, commit: CommitOffsets) -> Sequence[ErrorCode]:
        """Return an error for each offset of a commit, in order."""

    def committed(self, group: Any, commit: CommitOffsets) -> None:
        """Note a commit that is not transactional: it may extend the session of its member."""

    def check_fetch(self, group: Any, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE if the offsets may be fetched with this member id and epoch."""

    def check_delete_offsets(self, group: Any) -> ErrorCode:
        """Return NONE if single offsets may be deleted. The shard refuses those of topics in use."""

    def uses_topic(self, group: Any, topic: str) -> bool:
        """Whether the members subscribe to a topic: its offsets are neither deleted nor expire."""

    def kept_since(self, group: Any, topic: str, committed_at_ms: int) -> int | None:
        """Return the time from which the retention of an offset counts, None if the offset cannot expire now."""
