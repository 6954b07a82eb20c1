"""What the admin client returns: topics with their partitions, and consumer groups with their members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.kafka.subscriptions import TopicPartition


class TopicSummary(NamedTuple):
    """A topic in a list."""

    name: str
    partitions: int
    replicas: int


class PartitionDetail(NamedTuple):
    """A partition with its brokers and the range of its offsets; -1: it has no leader, so its offsets are not known."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its partitions and the settings that are set on it."""

    name: str
    partitions: tuple[PartitionDetail, ...]
    settings: Mapping[str, str]


class Placement(NamedTuple):
    """The brokers of a partition; `leader` -1: none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class ListedGroup(NamedTuple):
    """A consumer group in a list; `protocol` is empty for a group that only commits offsets."""

    group: str
    state: str
    protocol: str


class Member(NamedTuple):
    """A member of a consumer group, with the partitions it owns."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """A consumer group; `coordinator` is the host, port and id of its broker."""

    group: str
    state: str
    assignor: str
    members: tuple[Member, ...]
    coordinator: tuple[str, int, int]
