"""A classic consumer group and its members as values.

Owner: the coordinator of the group's offsets partition. Everything here is immutable and has no clock: `members` is replaced,
never changed in place. Only `classic_state.py` and its helpers make a new Group from an old one.
Source: Kafka's group membership protocol (KIP-62, KIP-345 static members, KIP-394 required member ids)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from streamactors.broker.group.group_kind import GroupType

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NO_ASSIGNMENT: Final = b""

# (assignor, subscription) pairs, in the member's order of preference
Protocols = tuple[tuple[str, bytes], ...]


class GroupState(Enum):
    """The state of a classic group. The values are the names in DescribeGroups answers."""

    EMPTY = "Empty"  # no members; committed offsets may remain, and their retention runs
    PREPARING_REBALANCE = "PreparingRebalance"  # members must join again; their JoinGroup requests wait
    COMPLETING_REBALANCE = "CompletingRebalance"  # SyncGroup requests wait for the assignment of the new generation
    STABLE = "Stable"  # every member has its assignment
    DEAD = "Dead"  # deleted, or no longer coordinated here; every request is refused


MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The broker's settings for classic groups, with Kafka's names."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2_147_483_647  # group.max.size
    new_member_join_timeout_ms: int = 300_000  # session timeout of a new member while its first JoinGroup is parked


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `join` and `sync` are its parked requests, None if none is parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = NO_ASSIGNMENT
    join: object | None = None
    sync: object | None = None
    is_new: bool = False  # its first JoinGroup is not answered yet, so it cannot heartbeat
    protocol_names: frozenset[str] = (
        frozenset()
    )  # of `protocols`, computed once because every join needs them of every member

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol_names", frozenset(name for name, _ in self.protocols))

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return the member's subscription for an assignor, empty if the member does not support the assignor."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the member's preferred assignor among `candidates`."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def may_expire(self) -> bool:
        """Whether the session timeout applies: not while a request of the member is parked here."""
        return self.is_new or (self.join is None and self.sync is None)


@dataclass(frozen=True, slots=True)
class Group:
    """A classic group between two events."""

    group_id: str
    rules: GroupRules = field(default_factory=GroupRules)
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    state_since_ms: int = -1  # -1: unknown, because the record has an old version
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    pending_joins: frozenset[str] = frozenset()  # ids given with MEMBER_ID_REQUIRED and not used yet (KIP-394)
    pending_syncs: frozenset[str] = frozenset()  # members of this generation that have not sent SyncGroup yet
    assigning: bool = False  # the leader's assignment of this generation is being written
    joined_during_delay: bool = False  # a member joined during the initial delay: the delay may be extended
    stored: bool = False  # the log has a record of this group, so it exists even without members and offsets

    # -- a group of any kind ----------------------------------------------------------------------------------------

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol(self) -> str:
        return self.protocol_type or ""

    # -- queries ----------------------------------------------------------------------------------------------------

    def member_of_instance(self, instance_id: str) -> Member | None:
        """Return the current member of a group.instance.id."""
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member
        return None

    @property
    def joined_count(self) -> int:
        return sum(member.join is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether every member's JoinGroup is parked and no pending id is left."""
        return not self.pending_joins and all(member.join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time in which members must join again: the longest of the members' rebalance timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_rebalancing_from_empty(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join: all members must share at least one assignor."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        if not self.members:
            # all members left during a rebalance, which waits for newcomers with a pending id
            return bool(protocols)
        shared = self.shared_protocols()
        return any(name in shared for name, _ in protocols)

    def shared_protocols(self) -> frozenset[str]:
        """Return the assignors that every member supports; empty without members."""
        names = {member.protocol_names for member in self.members.values()}
        return frozenset.intersection(*names) if names else frozenset()

    def select_protocol(self) -> str:
        """Return the assignor with the most votes; in a tie, the one voted for first, so that the choice is stable."""
        candidates = self.shared_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    # -- steps of the state machine ---------------------------------------------------------------------------------

    def moved_to(self, state: GroupState, now_ms: int) -> Group:
        """Return the group in another state. Raises AssertionError for an illegal move, which is a bug of this broker."""
        if state not in MOVES[self.state]:
            raise AssertionError(f"group {self.group_id!r} cannot move from {self.state.value} to {state.value}")
        return replace(self, state=state, previous_state=self.state, state_since_ms=now_ms)

    def with_member(self, member: Member) -> Group:
        """Return the group with a member added or replaced."""
        leader = self.leader if self.leader is not None else member.member_id
        return replace(
            self,
            members={**self.members, member.member_id: member},
            leader=leader,
            pending_joins=self.pending_joins - {member.member_id},
        )

    def with_members(self, members: Iterable[Member]) -> Group:
        return replace(self, members={member.member_id: member for member in members})

    def without(self, *member_ids: str) -> Group:
        """Return the group without these members or pending ids; the oldest member succeeds a removed leader."""
        gone = frozenset(member_ids)
        members = {member_id: member for member_id, member in self.members.items() if member_id not in gone}
        leader = self.leader if self.leader not in gone else next(iter(members), None)
        return replace(
            self,
            members=members,
            leader=leader,
            pending_joins=self.pending_joins - gone,
            pending_syncs=self.pending_syncs - gone,
        )
