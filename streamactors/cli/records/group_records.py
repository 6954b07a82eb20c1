"""Reading a topic as a member of a consumer group: `consume --group`. What has been printed is committed, so that the group continues after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from streamactors.cli.bootstrap import consumer_settings
from streamactors.cli.records.partition_records import LIMIT, WAIT_S

if TYPE_CHECKING:
    from streamactors.kafka.record import ConsumerRecord
    from streamactors.kafka.subscriptions import TopicPartition

EndsOf: TypeAlias = Callable[[Sequence["TopicPartition"]], Mapping["TopicPartition", int]]
"""Returns the offset in each partition before which reading ends."""
COMMIT_EVERY_S: Final = 1.0
COMMIT_TIMEOUT_S: Final = 10.0
_AGAIN_S: Final = 0.1


class GroupRecords:
    """One member. An iterable of lists of records, which are empty when no record came for WAIT_S; a context manager.

    `reset`: where partitions without a committed offset begin, earliest or latest. `ends_of`: None reads without an end. The
    iteration ends when each assigned partition has been read to its end, or when the group assigns none."""

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str, ends_of: EndsOf | None) -> None:
        from streamactors.kafka.client.consumer import StreamConsumer

        settings = consumer_settings(bootstrap).with_group_id(group).with_auto_offset_reset(reset)
        self._topic = topic
        self._ends_of = ends_of
        self._assigned: set[TopicPartition] = set()
        self._is_member = False
        self._new: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        self._pending: dict[TopicPartition, int] = {}
        """Positions after what was printed, and that are not committed."""
        self._client = StreamConsumer(settings)

    @property
    def assigned_nothing(self) -> bool:
        """True if the group has given all partitions to other members."""
        return self._is_member and not self._assigned

    def __enter__(self) -> GroupRecords:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._commit()
        finally:
            self._client.close()

    def __iter__(self) -> Iterator[list[ConsumerRecord]]:
        client = self._client
        client.preflight([self._topic])
        client.subscribe([self._topic], self._on_assign, self._on_revoke, self._on_lost)
        committed_s = time.monotonic()
        while not self._is_over():
            found = client.poll(LIMIT, WAIT_S)
            if self._new and self._ends_of is not None:
                self._ends.update(self._ends_of(self._new))
            self._new.clear()
            yield [record for run in found.runs for record in self._before_end(run.key, run.records)]
            for run in found.runs:
                if run.end >= self._ends.get(run.key, run.end + 1):
                    del self._ends[run.key]
            for key, position in found.ends:
                end = self._ends.get(key, position if self._ends_of is None else -1)
                if position >= end:
                    self._ends.pop(key, None)
                if key in self._pending and position == end:  # the last offset may be that of a transaction's end
                    self._pending[key] = position
            if time.monotonic() - committed_s > COMMIT_EVERY_S:
                self._commit()
                committed_s = time.monotonic()

    def printed(self, records: Sequence[ConsumerRecord]) -> None:
        """Remember that these records are done: the first ones of the last list, in its order."""
        from streamactors.kafka.subscriptions import TopicPartition

        for record in records:
            self._pending[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def _before_end(self, key: TopicPartition, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        end = self._ends.get(key)
        if end is not None:
            return [record for record in records if record.offset < end]
        return records if self._ends_of is None else ()

    def _is_over(self) -> bool:
        return self._ends_of is not None and self._is_member and not self._new and not self._ends

    def _on_assign(self, keys: list[TopicPartition]) -> None:
        self._is_member = True
        self._assigned.update(keys)
        self._new += keys

    def _on_revoke(self, keys: list[TopicPartition]) -> None:
        self._commit()
        self._on_lost(keys)

    def _on_lost(self, keys: list[TopicPartition]) -> None:
        self._assigned.difference_update(keys)
        for key in keys:
            self._ends.pop(key, None)
            self._pending.pop(key, None)

    def _commit(self) -> None:
        give_up = time.monotonic() + COMMIT_TIMEOUT_S
        while self._pending and not self._client.commit_and_wait(self._pending):
            if time.monotonic() > give_up:
                break  # the records are printed again by whoever continues
            time.sleep(_AGAIN_S)
        self._pending.clear()
