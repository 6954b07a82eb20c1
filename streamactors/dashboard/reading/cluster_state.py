"""Puts the state of a cluster together from what its clients and its brokers have answered. Pure, but for `groups_of`."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from streamactors.dashboard.model_cluster import (
    BrokerPartition,
    BrokerState,
    DiskState,
    GroupState,
    IsrChange,
    NodeState,
    RequestTimes,
    TopicState,
)
from streamactors.dashboard.reading.cluster_questions import Asked
from streamactors.errors import StreamActorsError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.admin_values import Placement
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.subscriptions import TopicPartition

MOST_GROUPS: Final = 100
"""Lag is asked for of so many groups."""
MOST_CHANGES: Final = 50

Offsets = Mapping[TopicPartition, int]
Placements = Mapping[TopicPartition, Placement]


def cluster_state(
    placements: Placements,
    starts: Offsets,
    ends: Offsets,
    groups: Iterable[GroupState],
    rates: Mapping[str, float],
    asked: Asked | None = None,
    isr_changes: tuple[IsrChange, ...] = (),
) -> BrokerState:
    """Return the state of a cluster."""
    asked = asked or Asked()
    topics: dict[str, list[Placement]] = {}
    for key, placed in placements.items():
        topics.setdefault(key.topic, []).append(placed)
    leaders = Counter(placed.leader for placed in placements.values() if placed.leader >= 0)
    ids = {node for placed in placements.values() for node in placed.replicas} | set(asked.addresses)
    return BrokerState(
        tuple(_node(node, leaders[node], asked) for node in sorted(ids)),
        tuple(
            TopicState(
                name,
                len(placed),
                sum(len(p.in_sync) < len(p.replicas) for p in placed),
                asked.topic_bytes.get(name),
                rates.get(name),
            )
            for name, placed in sorted(topics.items())
        ),
        tuple(
            BrokerPartition(
                key.topic,
                key.partition,
                placed.leader if placed.leader >= 0 else None,
                placed.in_sync,
                placed.replicas,
                starts.get(key),
                ends.get(key),
            )
            for key, placed in sorted(placements.items())
        ),
        tuple(groups),
        asked.transactions,
        asked.quotas,
        isr_changes,
        asked.controller,
        asked.cluster,
    )


def _node(node: int, leads: int, asked: Asked) -> NodeState:
    disks = asked.disks.get(node, ())
    size = sum(each.bytes for each in disks) if disks else None
    controller = node == asked.controller
    role = "broker, controller" if controller else "broker"
    return NodeState(node, role, leads, size, controller=controller, address=asked.addresses.get(node), disks=disks)


def with_internals(state: BrokerState, internals: Iterable[Mapping[str, Any]]) -> BrokerState:
    """Return a state with what the brokers themselves have said, which is newer. A broker that has said nothing stays as it is."""
    inside = {int(each["id"]): each for each in internals}
    known = {node.id: node for node in state.nodes}
    nodes = [
        _inside(known.get(node, NodeState(node, "broker")), inside[node]) if node in inside else known[node]
        for node in sorted({*known, *inside})
    ]
    sizes: Counter[str] = Counter()
    for each in inside.values():
        sizes.update(each["topics"])
    topics = tuple(replace(each, bytes=sizes.get(each.name, each.bytes)) for each in state.topics)
    return replace(state, nodes=tuple(nodes), topics=topics)


def _inside(node: NodeState, said: Mapping[str, Any]) -> NodeState:
    disks = tuple(DiskState(**each) for each in said["disks"])
    requests = tuple(RequestTimes(**each) for each in said["requests"])
    controller = bool(said["controller"])
    return replace(
        node,
        role="broker, controller" if controller else node.role,
        controller=controller,
        disk_bytes=sum(each.bytes for each in disks),
        disks=disks,
        requests=requests,
        request_ms_p99=next((each.ms_p99 for each in requests if each.api == "Produce"), None),
        purgatory=said["produce_purgatory"] + said["fetch_purgatory"],
        produce_purgatory=said["produce_purgatory"],
        fetch_purgatory=said["fetch_purgatory"],
        connections=said["connections"],
        throttled=said["throttled"],
        disk_write_ms_p99=said["disk_write_ms_p99"],
        disk_write_ms_max=said["disk_write_ms_max"],
        disk_busy=said["disk_busy"],
    )


def groups_of(admin: Admin, ends: Offsets, kinds: Mapping[str, tuple[str, str]]) -> list[GroupState]:
    """Return the groups, of every kind that the cluster names; members and lag of those that librdkafka can describe."""
    found = []
    listed = {group.group: group for group in admin.groups()}
    for name in sorted({*listed, *kinds})[:MOST_GROUPS]:
        kind, state = kinds.get(name, ("", ""))
        group = listed.get(name)
        if group is None:
            found.append(GroupState(name, kind, state, 0))
            continue
        try:
            members = len(admin.members(name))
            committed = admin.committed(name)
        except NoBroker:
            raise  # each further group would wait for its whole time, too
        except StreamActorsError:
            continue  # it was deleted meanwhile
        lag = sum(max(0, ends[key] - offset) for key, offset in committed.items() if key in ends and offset >= 0)
        found.append(GroupState(name, kind or ("classic" if group.protocol else "simple"), group.state, members, lag))
    return found


def rates_of(before: tuple[float, Offsets] | None, now: tuple[float, Offsets]) -> dict[str, float]:
    """Return the records per second of each topic."""
    if before is None:
        return {}
    seconds = max(now[0] - before[0], 0.001)
    total: Counter[str] = Counter()
    for key, end in now[1].items():
        total[key.topic] += max(0, end - before[1].get(key, end))
    return {topic: round(count / seconds, 3) for topic, count in total.items()}


class IsrChanges:
    """The last changes of replicas in sync, from one look to the next."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, tuple[int, ...]] = {}
        self._changes: deque[IsrChange] = deque(maxlen=MOST_CHANGES)

    def seen(self, placements: Placements, at_ms: int) -> tuple[IsrChange, ...]:
        """Compare with the look before, and return the changes that are kept, the newest last."""
        for key, placed in sorted(placements.items()):
            before, now = self._known.get(key), tuple(sorted(placed.in_sync))
            if before is not None and before != now:
                leader = placed.leader if placed.leader >= 0 else None
                self._changes.append(IsrChange(at_ms, key.topic, key.partition, before, now, leader))
        self._known = {key: tuple(sorted(placed.in_sync)) for key, placed in placements.items()}
        return tuple(self._changes)
