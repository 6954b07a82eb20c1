"""Groups and topics as confluent-kafka describes them to an administrator.

Owner: the admin client. Pure."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.group.classic.classic_group import Group
from streamactors.broker.group.group_kind import GroupType
from streamactors.kafka.client.connection import ck, ck_admin
from streamactors.simulation.client.membership.wire import assigned

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster

_STATES: Final = {
    "Empty": "EMPTY",
    "PreparingRebalance": "PREPARING_REBALANCING",
    "CompletingRebalance": "COMPLETING_REBALANCING",
    "Stable": "STABLE",
    "Dead": "DEAD",
}


def node(number: int) -> Any:
    """Return a broker."""
    return ck.Node(number, "simulated", 9092 + number)


def state_of(group: Any) -> Any:
    """Return the state of a group; states of consumer groups that librdkafka does not know are UNKNOWN."""
    return ck.ConsumerGroupState[_STATES.get(group.state_name, "UNKNOWN")]


def listing_of(group: Any) -> Any:
    """Return a group as a list of groups has it."""
    is_simple = not group.listed_protocol and group.group_type is GroupType.CLASSIC
    kind = ck.ConsumerGroupType[group.group_type.name]
    return ck_admin.ConsumerGroupListing(group.group_id, is_simple, state_of(group), kind)


def description_of(group_id: str, group: Any, cluster: SimulatedCluster) -> Any:
    """Return a group with its members. One that does not exist is dead."""
    at = node(cluster.group_coordinator(group_id))
    if group is None:
        return ck_admin.ConsumerGroupDescription(group_id, False, [], "", ck.ConsumerGroupState.DEAD, at)
    members = [_member(each, _assigned(each, group, cluster)) for each in group.members.values()]
    assignor = (group.protocol or "") if isinstance(group, Group) else ""
    return ck_admin.ConsumerGroupDescription(group_id, False, members, assignor, state_of(group), at)


def _assigned(member: Any, group: Any, cluster: SimulatedCluster) -> list[tuple[str, int]]:
    if isinstance(group, Group):
        return assigned(member.assignment)
    names = cluster.topics.image.topics_by_id
    return [(names[each].name, number) for each, held in member.assigned.items() if each in names for number in held]


def _member(member: Any, keys: list[tuple[str, int]]) -> Any:
    held = ck_admin.MemberAssignment([ck.TopicPartition(*key) for key in sorted(keys)])
    return ck_admin.MemberDescription(member.member_id, member.client_id, member.client_host, held, member.instance_id)


def topic_of(name: str, cluster: SimulatedCluster) -> Any:
    """Return a topic with its partitions."""
    partitions = [
        ck.TopicPartitionInfo(
            p.index, node(p.leader), [node(each) for each in p.replicas], [node(each) for each in p.isr]
        )
        for p in cluster.topics.of(name)
    ]
    topic_id = cluster.topics.image.topics[name].topic_id
    return ck_admin.TopicDescription(name, _as_uuid(topic_id), name.startswith("__"), partitions)


def _as_uuid(given: uuid.UUID) -> Any:
    halves = (given.int >> 64, given.int & (1 << 64) - 1)
    return ck.Uuid(*(half - (1 << 64) if half >= 1 << 63 else half for half in halves))
