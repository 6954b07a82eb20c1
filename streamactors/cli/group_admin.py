"""What `streamactors groups` asks the cluster: groups, members, committed offsets, ends of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from streamactors.broker.coordinator.record_codec import CorruptRecord, Reader
from streamactors.broker.errors import ErrorCode
from streamactors.cli.wire import GROUP, Refused, Wire
from streamactors.kafka.errors import KafkaError, TopicNotFound

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS = 2, 8, 9, 15, 16
DELETE_GROUPS, OFFSET_DELETE = 42, 47
LATEST: Final = -1
EARLIEST: Final = -2

Place = tuple[str, int]  # topic, partition


class ListedGroup(NamedTuple):
    group: str
    state: str
    protocol: str


class Member(NamedTuple):
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[Place, ...]


class Group(NamedTuple):
    group: str
    state: str
    assignor: str
    members: tuple[Member, ...]


class Lag(NamedTuple):
    """One partition of a group; None where nothing is committed or nobody owns it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None
    host: str | None


class GroupAdmin:
    """Questions and orders about groups. Raises KafkaError when one cannot be answered."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def groups(self) -> list[ListedGroup]:
        """Return the groups of every broker, by name."""
        listed = []
        for broker in self._wire.brokers():
            answer = self._wire.retried(
                lambda broker=broker: self._wire.call(broker, LIST_GROUPS, 4, {}), lambda found: found.error_code
            )
            if answer.error_code:
                raise Refused("the list of groups", answer.error_code)
            listed += [ListedGroup(g.group_id, g.group_state, g.protocol_type) for g in answer.groups]
        return sorted(listed)

    def describe(self, group_id: str) -> Group:
        """Return a group with its members. Raises KafkaError if there is no such group."""
        body = {"groups": [group_id]}
        (found,) = self._wire.retried(
            lambda: self._wire.call_coordinator(GROUP, group_id, DESCRIBE_GROUPS, 4, body),
            lambda answer: answer.groups[0].error_code,
        ).groups
        if found.error_code:
            raise Refused(f"group {group_id!r}", found.error_code)
        if found.group_state == "Dead":
            raise KafkaError(f"there is no group {group_id!r}; see: streamactors groups list")
        members = tuple(
            Member(m.member_id, m.client_id, m.client_host, m.group_instance_id, assigned(m.member_assignment))
            for m in found.members
        )
        return Group(group_id, found.group_state, found.protocol_data, members)

    def coordinator(self, group_id: str) -> tuple[str, int, int]:
        """Return the host, port and id of the broker that coordinates a group."""
        return self._wire.coordinator(GROUP, group_id)

    def committed(self, group_id: str) -> dict[Place, int]:
        """Return every committed offset of a group."""
        answer = self._wire.retried(
            lambda: self._wire.call_coordinator(
                GROUP, group_id, OFFSET_FETCH, 5, {"group_id": group_id, "topics": None}
            ),
            lambda found: found.error_code,
        )
        if answer.error_code:
            raise Refused(f"the offsets of group {group_id!r}", answer.error_code)
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}

    def lag(self, group: Group) -> list[Lag]:
        """Return every partition that the group has committed or owns, with what is left to read."""
        committed = self.committed(group.group)
        owners = {place: member for member in group.members for place in member.partitions}
        places = sorted({*committed, *owners})
        ends = self.offsets(places, LATEST)
        rows = []
        for place in places:
            at, end, owner = committed.get(place), ends.get(place), owners.get(place)
            left = None if at is None or end is None else max(end - at, 0)
            rows.append(Lag(*place, at, end, left, owner and owner.client_id, owner and owner.host))
        return rows

    def partitions(self, topic: str) -> list[Place]:
        """Return a topic's partitions. Raises TopicNotFound."""
        (found,) = self._wire.metadata([topic]).topics
        if found.error_code:
            raise TopicNotFound(f"there is no topic {topic!r}; see: streamactors topics list")
        return [(topic, number) for number in sorted(p.partition_index for p in found.partitions)]

    def offsets(self, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
        """Return the offset at a point of time (or LATEST, EARLIEST) of each partition that exists."""
        wanted = sorted(places)
        found: dict[Place, int] = {}
        for broker, mine in self._by_leader(wanted).items():
            topics = [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": p, "current_leader_epoch": -1, "timestamp": timestamp_ms} for p in numbers
                    ],
                }
                for topic, numbers in _by_topic(mine).items()
            ]
            body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
            for topic in self._wire.call(broker, LIST_OFFSETS, 4, body).topics:
                for p in topic.partitions:
                    if not p.error_code:
                        found[topic.name, p.partition_index] = p.offset
        return found

    def commit(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        """Set offsets of a group that has no members. Raises KafkaError."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": p, "committed_offset": offsets[topic, p], "committed_metadata": ""}
                    for p in numbers
                ],
            }
            for topic, numbers in _by_topic(sorted(offsets)).items()
        ]
        body = {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        answer = self._wire.call_coordinator(GROUP, group_id, OFFSET_COMMIT, 6, body)
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise Refused(f"group {group_id!r}: {topic.name}-{p.partition_index}", p.error_code)

    def delete_offsets(self, group_id: str, places: Iterable[Place]) -> None:
        """Delete committed offsets of topics that nobody in the group subscribes to. Raises KafkaError."""
        topics = [
            {"name": topic, "partitions": [{"partition_index": p} for p in numbers]}
            for topic, numbers in _by_topic(places).items()
        ]
        body = {"group_id": group_id, "topics": topics}
        answer = self._wire.retried(
            lambda: self._wire.call_coordinator(GROUP, group_id, OFFSET_DELETE, 0, body), lambda found: found.error_code
        )
        if answer.error_code:
            raise Refused(f"group {group_id!r}", answer.error_code)
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise Refused(f"group {group_id!r}: {topic.name}-{p.partition_index}", p.error_code)

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets. Raises KafkaError, naming the state of one that is in use."""
        body = {"groups_names": [group_id]}
        (result,) = self._wire.retried(
            lambda: self._wire.call_coordinator(GROUP, group_id, DELETE_GROUPS, 1, body),
            lambda answer: answer.results[0].error_code,
        ).results
        if result.error_code == ErrorCode.NON_EMPTY_GROUP:
            raise KafkaError(
                f"group {group_id!r} has members; stop them first: streamactors groups describe {group_id}"
            )
        if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(f"there is no group {group_id!r}; see: streamactors groups list")
        if result.error_code:
            raise Refused(f"group {group_id!r}", result.error_code)

    def _by_leader(self, places: Sequence[Place]) -> dict[int, list[Place]]:
        if not places:
            return {}
        leaders = {
            (topic.name, p.partition_index): p.leader_id
            for topic in self._wire.metadata(sorted({topic for topic, _ in places})).topics
            for p in topic.partitions
        }
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            leader = leaders.get(place, -1)
            if leader >= 0:
                by_leader.setdefault(leader, []).append(place)
        return by_leader


def assigned(assignment: bytes) -> tuple[Place, ...]:
    """Return the partitions in a consumer's assignment; none if it is no consumer's."""
    reader = Reader(assignment)

    def topic() -> list[Place]:
        name = reader.string()
        return [(name, partition) for partition in reader.array(reader.int32)]

    try:
        reader.int16()
        return tuple(sorted(place for part in reader.array(topic) for place in part))
    except CorruptRecord:
        return ()


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics
