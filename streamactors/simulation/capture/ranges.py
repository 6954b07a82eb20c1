"""Which topics a group has, and from where to where they are captured. Asks the cluster, and reads no record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.capture.capsule import CapturedTopic, Kind
from streamactors.simulation.capture.errors import CaptureError

_TRIES: Final = 5


@dataclass
class Range:
    """A partition: offsets of the span, and what bounds them."""

    begin: int
    end: int
    log_start: int
    committed: int | None


@dataclass
class Ranges:
    """What is to be read."""

    topics: dict[str, CapturedTopic] = field(default_factory=dict)
    partitions: dict[TopicPartition, Range] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def ranges_of(
    admin: Admin, group: str, asked: Iterable[str], named: Iterable[str], since_ms: int, *, committed_only: bool
) -> Ranges:
    """Return the topics of a group: those that it has committed offsets of or reads now, `asked`, and its changelogs and repartition topics; of `named`
    those that are there are added without records. Raises CaptureError, TopicNotFound, KafkaError."""
    found = Ranges()
    known = {topic.name: topic.partitions for topic in admin.topics()}
    own = _own(admin, group, known)
    changelogs = [name for name in own if name.endswith("-changelog")]
    repartitions = [name for name in own if name.endswith("-repartition")]
    offsets = _consistent_offsets(admin, group, changelogs, found.notes)
    assigned = [key.topic for member in admin.members(group) for key in member.partitions]
    inputs = [*dict.fromkeys([*asked, *(key.topic for key in offsets), *assigned])]
    if not inputs:
        raise CaptureError(
            f"group {group} has neither committed offsets nor members, so its topics are not known: give --topics, or see `streamactors groups list`"
        )
    found.notes += [
        f"{name} is gone: the group has offsets of it" for name in inputs if name not in known | dict.fromkeys(asked)
    ]
    for name in (name for name in inputs if name in known or name in asked):
        topic = _topic(admin, name, None)
        found.topics[name] = topic
        _add(admin, found, topic, offsets, since_ms, committed_only=committed_only)
    for name in changelogs:
        found.topics[name] = topic = _topic(admin, name, Kind.CHANGELOG)
        _add(admin, found, topic, {}, since_ms, committed_only=True)
    for name in repartitions:
        found.topics[name] = topic = _topic(admin, name, Kind.REPARTITION)
        _add(admin, found, topic, admin.committed(name, _keys(topic)), None, committed_only=True)
    for name in named:
        if name in known and name not in found.topics:
            found.topics[name] = _topic(admin, name, Kind.OTHER)
    return found


def _own(admin: Admin, group: str, known: Iterable[str]) -> list[str]:
    """Return the topics that begin with the group's name, without those of a group with a longer name: pay-eu-sum-changelog is not of group pay
    if there is a group pay-eu."""
    longer = tuple(
        f"{each.group}-"
        for each in admin.groups()
        if each.group.startswith(f"{group}-") and not each.group.endswith("-repartition")
    )
    return [name for name in known if name.startswith(f"{group}-") and not (longer and name.startswith(longer))]


def _consistent_offsets(
    admin: Admin, group: str, changelogs: Iterable[str], notes: list[str]
) -> dict[TopicPartition, int]:
    """Return the committed offsets at a moment between two looks at the changelogs' ends that are equal, if there is one."""
    keys = [key for name in changelogs for key in admin.partitions_of(name)]
    for _ in range(_TRIES):
        before = admin.offsets(dict.fromkeys(keys, LATEST), committed=True)
        offsets = admin.committed(group)
        if admin.offsets(dict.fromkeys(keys, LATEST), committed=True) == before:
            return offsets
    notes.append(
        "the group has committed while its offsets were read: its newest state may be ahead of its offsets by the records of a commit"
    )
    return offsets


def _topic(admin: Admin, name: str, kind: Kind | None) -> CapturedTopic:
    detail = admin.describe(name)
    if kind is None:
        kind = Kind.TABLE if "compact" in detail.settings.get("cleanup.policy", "") else Kind.INPUT
    return CapturedTopic(name, kind, len(detail.partitions), dict(detail.settings))


def _keys(topic: CapturedTopic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


def _add(
    admin: Admin,
    found: Ranges,
    topic: CapturedTopic,
    offsets: Mapping[TopicPartition, int],
    since_ms: int | None,
    *,
    committed_only: bool,
) -> None:
    keys = _keys(topic)
    starts = admin.offsets(dict.fromkeys(keys, EARLIEST))
    newest = admin.offsets(
        dict.fromkeys(keys, LATEST)
    )  # first: what is appended between the two looks is in no open transaction
    ends = admin.offsets(dict.fromkeys(keys, LATEST), committed=committed_only)
    times: Mapping[TopicPartition, Any] = {} if since_ms is None else admin.offsets(dict.fromkeys(keys, since_ms))
    for key in keys:
        start, end, committed = starts[key], ends[key], offsets.get(key)
        if topic.kind in (Kind.INPUT, Kind.TABLE) and newest[key] > end:
            found.notes.append(
                f"{key} ends at offset {end}, where a transaction is open: {newest[key] - end:,} offsets after it are not read by the group yet"
            )
        at = times.get(key, -1)
        begin = min(at if at >= 0 else end, end)
        if since_ms is None:
            begin = start if committed is None else max(start, committed)
        elif committed is not None and committed < begin:
            found.notes.append(
                f"{key} begins at the group's offset {max(committed, start)}, before the span: the group is behind"
            )
            begin = max(committed, start)
        if committed is not None and committed < start:
            found.notes.append(
                f"{key}: retention has deleted {start - committed:,} offsets that the group had not read ({committed} to {start - 1})"
            )
        elif topic.kind is Kind.INPUT and since_ms is not None and begin == start > 0:
            found.notes.append(f"{key} begins at offset {start}, where its log begins: retention may have cut the span")
        found.partitions[key] = Range(begin, end, start, committed)
