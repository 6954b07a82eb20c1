"""How far a consumer group is behind, per partition: in records, and in seconds.

The committed offsets are read before the ends. In the other order a group that reads fast would be ahead of the ends, and its lag negative."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.client.admin_values import Group, Member
    from streamactors.kafka.client.offsets.first_records import FirstRecord
    from streamactors.kafka.settings import ConsumerSettings

TIMES_S: Final = 10.0
"""How long the first records are waited for."""


class Lag(NamedTuple):
    """A partition of a group; None where nothing is committed, the partition has no leader, or no member owns it."""

    topic: str
    partition: int
    committed: int | None
    start: int | None
    """The first offset that exists."""
    end: int | None
    lag: int | None
    """The number of offsets that are left to read. Without a commit all of them are; `auto_offset_reset` decides whether they are read."""
    deleted: int
    """The number of offsets that were deleted after the committed one, before they were read."""
    owner: Member | None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def next(self) -> int | None:
        """The first offset that is left to read."""
        if self.start is None or self.committed is None:
            return self.start
        return max(self.start, self.committed)


class GroupLag(NamedTuple):
    """A group with its partitions at one moment."""

    group: Group
    rows: Sequence[Lag]
    seconds: Mapping[TopicPartition, float]
    """The age of the first record that is not committed; 0 where no record is left. A partition whose record could not be read is missing."""
    only_offsets: frozenset[TopicPartition]
    """Partitions with offsets left, and no record: they are of ends of transactions, or their records were compacted."""
    unreadable: frozenset[str]
    """Topics that this user must not read, so that the age of their records is not known."""
    trouble: str = ""
    """Why first records could not be read."""

    @property
    def unknown(self) -> list[TopicPartition]:
        """The partitions with records left whose age is not known, without those of topics that must not be read."""
        return [r.key for r in self.rows if r.lag and r.key not in self.seconds and r.topic not in self.unreadable]

    @property
    def behind(self) -> int:
        """The number of records that are left to read in all partitions."""
        return sum(row.lag or 0 for row in self.rows)

    @property
    def seconds_behind(self) -> float | None:
        """The age of the oldest record that is not committed; None if none is known."""
        return max(self.seconds.values(), default=None)


def lag_of(admin: Admin, group: Group) -> list[Lag]:
    """Return every partition of the topics that the group has committed or owns, with the number of records left to read."""
    from streamactors.kafka.client.admin import EARLIEST, LATEST

    counted = {TopicPartition(topic.name, number) for topic in admin.topics() for number in range(topic.partitions)}
    owners = {key: member for member in group.members for key in member.partitions}
    committed = admin.committed(group.group, counted | owners.keys())
    topics = {key.topic for key in (*committed, *owners)}
    keys = sorted({*committed, *owners, *(key for key in counted if key.topic in topics)})
    starts, ends = (admin.offsets(dict.fromkeys(keys, at), unknown_ok=True) for at in (EARLIEST, LATEST))
    return [_row(key, committed.get(key), starts.get(key), ends.get(key), owners.get(key)) for key in keys]


def _row(key: TopicPartition, committed: int | None, start: int | None, end: int | None, owner: Member | None) -> Lag:
    if start is None or end is None:
        return Lag(*key, committed, start, end, None, 0, owner)
    begin = start if committed is None else max(committed, start)
    return Lag(
        *key, committed, start, end, max(end - begin, 0), begin - committed if committed is not None else 0, owner
    )


class GroupLags:
    """Looks at a group, once or again and again. A first record that was read is remembered until the group has committed it."""

    def __init__(self, admin: Admin, settings: ConsumerSettings, now_s: Callable[[], float] = time.time) -> None:
        from streamactors.kafka.client.offsets.first_records import FirstRecords

        self._admin = admin
        self._first = FirstRecords(settings)
        self._now_s = now_s
        self._known: dict[TopicPartition, tuple[int, FirstRecord]] = {}
        """The first record at or after an offset, by partition."""

    def __enter__(self) -> GroupLags:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._first.close()

    def look(self, group: str) -> GroupLag:
        """Return the group as it is now. Raises GroupNotFound, NoBroker, KafkaError."""
        found = self._admin.describe_group(group)
        rows = lag_of(self._admin, found)
        unreadable = self._unreadable({row.topic for row in rows if row.lag})
        asked = {row.key: row for row in rows if row.lag and row.topic not in unreadable}
        trouble = ""
        try:
            firsts = self._firsts(asked)
        except KafkaError as error:  # the lag in records is known all the same
            firsts, trouble = {}, str(error)
        now_ms = self._now_s() * 1_000
        seconds = {row.key: 0.0 for row in rows if row.lag == 0}
        for key, first in firsts.items():
            if first is None:
                seconds[key] = 0.0
            elif first.timestamp_ms is not None:
                seconds[key] = round(max(0.0, now_ms - first.timestamp_ms) / 1_000, 3)
        empty = frozenset(key for key, first in firsts.items() if first is None)
        return GroupLag(found, rows, seconds, empty, unreadable, trouble)

    def _unreadable(self, topics: set[str]) -> frozenset[str]:
        from streamactors.kafka.client.diagnosis.rights import Right

        missing = self._admin.missing_rights(Right("READ", "TOPIC", topic) for topic in sorted(topics))
        return frozenset(right.name for right in missing)

    def _firsts(self, asked: Mapping[TopicPartition, Lag]) -> dict[TopicPartition, FirstRecord | None]:
        begins = {key: row.next for key, row in asked.items() if row.next is not None}
        ends = {key: row.end for key, row in asked.items() if row.end is not None}
        found: dict[TopicPartition, FirstRecord | None] = {}
        for key, begin in begins.items():
            known = self._known.get(key)
            if known is not None and known[0] <= begin <= known[1].offset:
                found[key] = known[1]
        self._known = {key: known for key, known in self._known.items() if key in found}
        left = {key: begin for key, begin in begins.items() if key not in found}
        for key, first in self._first.find(left, ends, TIMES_S).items() if left else ():
            found[key] = first
            if first is not None:
                self._known[key] = (left[key], first)
        return found
