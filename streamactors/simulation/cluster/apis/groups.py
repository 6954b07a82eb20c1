"""What clients ask of the coordinator of a group.

Owner: the cluster, which passes each request to the broker's GroupShard. Answers are the broker's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import Heartbeat, JoinGroup, LeaveGroup, Leaving, SyncGroup
from streamactors.broker.group.consumer.consumer_events import MemberAnswer, MemberHeartbeat
from streamactors.broker.group.consumer.consumer_messages import ToConsumerGroup
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    FetchedOffset,
    FetchedOffsets,
    FetchOffsets,
    NewOffset,
    ToGroup,
)

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster

Reply = Callable[[ErrorCode, Any], object]
_HOST = "/127.0.0.1"


class Join(NamedTuple):
    """A member of a classic group joins, with the assignors and their subscriptions in the order of preference."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


def join_group(cluster: SimulatedCluster, asked: Join, reply: Reply) -> None:
    """Answer with JoinAnswer, when the next generation is made."""
    fresh = f"{asked.client_id if asked.instance_id is None else asked.instance_id}-{cluster.topics.new_id()}"
    event = JoinGroup(
        lambda answer: reply(answer.error, answer), asked.member_id, asked.instance_id, asked.client_id, _HOST,
        asked.session_timeout_ms, asked.rebalance_timeout_ms, "consumer", asked.protocols, fresh,
        can_skip_assignment=False,
    )  # fmt: skip
    cluster.groups.tell(asked.group_id, ToGroup(asked.group_id, event))


class Sync(NamedTuple):
    """A member asks for its assignment; the leader brings those of all."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...] = ()


def sync_group(cluster: SimulatedCluster, asked: Sync, reply: Reply) -> None:
    """Answer with SyncAnswer, when the leader has assigned."""
    event = SyncGroup(
        lambda answer: reply(answer.error, answer), asked.member_id, asked.instance_id, asked.generation, "consumer",
        asked.protocol, asked.assignments,
    )  # fmt: skip
    cluster.groups.tell(asked.group_id, ToGroup(asked.group_id, event))


class Beat(NamedTuple):
    """A member of a classic group is alive."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


def heartbeat(cluster: SimulatedCluster, asked: Beat, reply: Reply) -> None:
    """Answer whether the member still is one, and whether it must join again."""
    event = Heartbeat(lambda answer: reply(answer.error, answer), asked.member_id, asked.instance_id, asked.generation)
    cluster.groups.tell(asked.group_id, ToGroup(asked.group_id, event))


class Leave(NamedTuple):
    """A member of a classic group leaves."""

    group_id: str
    member_id: str
    instance_id: str | None = None


def leave_group(cluster: SimulatedCluster, asked: Leave, reply: Reply) -> None:
    """Answer when the member is gone."""
    event = LeaveGroup(lambda answer: reply(answer.error, answer), (Leaving(asked.member_id, asked.instance_id),))
    cluster.groups.tell(asked.group_id, ToGroup(asked.group_id, event))


class ConsumerBeat(NamedTuple):
    """A member of a consumer group (KIP-848) joins, is alive or leaves. Topics are named by their ids."""

    group_id: str
    beat: MemberHeartbeat


def consumer_group_heartbeat(cluster: SimulatedCluster, asked: ConsumerBeat, reply: Reply) -> None:
    """Answer with (MemberAnswer or None, the error's text)."""

    def answered(error: ErrorCode, why: str | None, answer: MemberAnswer | None) -> None:
        reply(error, (answer, why))

    cluster.groups.tell(asked.group_id, ToConsumerGroup(answered, asked.group_id, asked.beat, lambda _: True))


class Commit(NamedTuple):
    """Offsets of a group: (topic, partition, offset, metadata). `version` 9: a member of a consumer group names its epoch."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[tuple[str, int, int, str], ...]
    version: int = 8


def offset_commit(cluster: SimulatedCluster, asked: Commit, reply: Reply) -> None:
    """Answer with one error for each offset, in order."""
    errors = _unknown(cluster, asked.offsets)
    wanted = [NewOffset(*each[:3], -1, each[3]) for each in asked.offsets if each[:2] not in errors]

    def answered(of_wanted: Any) -> None:
        rest = iter(of_wanted)
        codes = [errors.get(each[:2]) or next(rest) for each in asked.offsets]
        for (topic, partition, offset, _), code in zip(asked.offsets, codes, strict=True):
            told = {"group": asked.group_id, "topic": topic, "partition": partition, "offset": offset}
            if code:
                cluster.world.event("commit refused", **told, error=ErrorCode(code).name)
            else:
                cluster.world.event("commit", **told)
        reply(ErrorCode.NONE, codes)

    if not wanted:
        answered(())
        return
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if asked.version >= 9 else ErrorCode.ILLEGAL_GENERATION
    commit = CommitOffsets(
        answered, asked.group_id, asked.member_id, asked.instance_id, asked.generation, wanted, unknown_group=unknown,
        version=asked.version,
    )  # fmt: skip
    cluster.groups.tell(asked.group_id, commit)


def _unknown(
    cluster: SimulatedCluster, offsets: tuple[tuple[str, int, int, str], ...]
) -> dict[tuple[str, int], ErrorCode]:
    get = cluster.topics.get
    return {each[:2]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in offsets if get(*each[:2]) is None}


class FetchCommitted(NamedTuple):
    """The committed offsets of some partitions; None: of all."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    require_stable: bool = True


def offset_fetch(cluster: SimulatedCluster, asked: FetchCommitted, reply: Reply) -> None:
    """Answer with the broker's FetchedOffsets. An offset of an open transaction is UNSTABLE_OFFSET_COMMIT."""

    def answered(found: FetchedOffsets) -> None:
        unstable = next((each.error for each in found.offsets if each.error), None)
        reply(found.error or unstable or ErrorCode.NONE, found.offsets)

    cluster.groups.tell(asked.group_id, FetchOffsets(answered, asked.group_id, asked.partitions, asked.require_stable))


def committed_offset(found: FetchedOffset) -> int:
    """Return the committed offset, -1 for none."""
    return -1 if found.committed is None else found.committed.offset
