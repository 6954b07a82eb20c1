"""Where `consume` begins and ends in each partition, by asking the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from streamactors.cli.bootstrap import admin_client
from streamactors.cli.places import Kind, Place, offsets_at

if TYPE_CHECKING:
    from streamactors.cli.records.group_records import GroupRecords
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.client.admin_values import PartitionDetail
    from streamactors.kafka.subscriptions import TopicPartition


class Bounds:
    """The bounds of one reading. `end` None: the ends of now, or none with `follow`. Raises KafkaError, UsageError and ClickException."""

    def __init__(
        self, bootstrap: str, topic: str, wanted: Sequence[int], start: Place, end: Place | None, *, follow: bool
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._wanted = wanted
        self._start = start
        self._end = end
        self._follow = follow
        self._there: dict[TopicPartition, PartitionDetail] = {}
        self._admin: Admin | None = None

    def starts(self) -> dict[TopicPartition, int]:
        """Return the first offset to read of each partition, inside the partition."""
        found = self._offsets(self._start)
        late = [f"{key} ends at {p.latest}" for key, p in self._there.items() if found[key] > p.latest]
        if late and len(late) == len(found):
            raise click.ClickException(f"--from {self._start.text} is after the last record: {', '.join(late[:3])}")
        return {key: max(p.earliest, min(p.latest, found[key])) for key, p in self._there.items()}

    def until(self) -> dict[TopicPartition, int] | None:
        """Return the offset of each partition before which reading ends; None: its end, or none."""
        return None if self._end is None else self._offsets(self._end)

    def member_of(self, group: str) -> GroupRecords:
        """Return the reading as a member of a group; only partitions without a committed offset begin at `start`."""
        from streamactors.cli.records.group_records import GroupRecords

        if self._wanted:
            raise click.UsageError("--group gets its partitions from the group; leave out --partition")
        if self._start.kind not in (Kind.BEGINNING, Kind.END):
            raise click.UsageError(
                f"--from {self._start.text} with --group: a group begins at its committed offsets, and beginning or end says where partitions "
                f"without one begin; to move the group: streamactors groups reset-offsets {group} --topic {self._topic} --to {self._start.text}"
            )
        reset = "earliest" if self._start.kind is Kind.BEGINNING else "latest"
        endless = self._follow and self._end is None
        return GroupRecords(self._bootstrap, group, self._topic, reset, None if endless else self._ends_of)

    def _ends_of(self, keys: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._there = {}  # the ends of now
        ends = {key: p.latest for key, p in self._partitions().items()}
        until = ends if self._end is None else self._offsets(self._end)
        return {key: until[key] if self._follow else min(until[key], ends[key]) for key in keys}

    def _offsets(self, place: Place) -> dict[TopicPartition, int]:
        there = self._partitions()
        starts, ends = ({key: at(p) for key, p in there.items()} for at in (_earliest, _latest))
        return offsets_at(place, self._asked(), starts, ends)

    def _partitions(self) -> dict[TopicPartition, PartitionDetail]:
        from streamactors.kafka.client.diagnosis.rights import Right
        from streamactors.kafka.subscriptions import TopicPartition

        if self._there:
            return self._there
        admin = self._asked()
        # an empty topic is not fetched from, so no fetch would be refused
        admin.check_rights([Right("READ", "TOPIC", self._topic)])
        there = {p.partition: p for p in admin.partitions(self._topic)}
        missing = [number for number in self._wanted if number not in there]
        if missing:
            raise click.ClickException(
                f"topic {self._topic} has no partition {missing[0]}; it has 0 to {len(there) - 1}"
            )
        self._there = {TopicPartition(self._topic, number): there[number] for number in self._wanted or there}
        return self._there

    def _asked(self) -> Admin:
        if self._admin is None:
            self._admin = admin_client(self._bootstrap)
        return self._admin


def _earliest(partition: PartitionDetail) -> int:
    return partition.earliest


def _latest(partition: PartitionDetail) -> int:
    return partition.latest
