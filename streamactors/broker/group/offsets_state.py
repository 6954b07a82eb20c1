"""The committed offsets of one offsets partition: the fold of its log.

Owner: the coordinator of the partition. No clock, file or thread, but changed in place: a commit cannot copy a hundred thousand
offsets. The same three methods (`put`, `delete`, `end_transaction`) apply records while the log is being read and when an append
is acknowledged, so this state is always the one that a new coordinator would read. Offsets of a transaction are pending until
its marker.
Source: Kafka's OffsetCommit, transactional offsets (KIP-98), UNSTABLE_OFFSET_COMMIT (KIP-447), expiry (KIP-211)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from streamactors.broker.group.offset_record import NO_EXPIRY, CommittedOffset

PartitionKey = tuple[str, int]  # topic, partition
Offsets = dict[PartitionKey, CommittedOffset]


class OffsetsState:
    """Committed and pending offsets by group."""

    __slots__ = ("_announced", "_committed", "_pending", "_transactions")

    def __init__(self) -> None:
        self._announced: dict[str, dict[PartitionKey, int]] = {}  # number of writes in progress, by group
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}  # by producer id, then group
        self._transactions: dict[str, set[int]] = {}  # producer ids with pending offsets, by group

    # -- records ----------------------------------------------------------------------------------------------------

    def put(self, group_id: str, partition: PartitionKey, offset: CommittedOffset, producer_id: int = -1) -> None:
        """Apply a committed offset; with a producer id it is pending until that producer's transaction ends."""
        if producer_id < 0:
            self._committed.setdefault(group_id, {})[partition] = offset
            return
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = offset
        self._transactions.setdefault(group_id, set()).add(producer_id)

    def delete(self, group_id: str, partition: PartitionKey) -> None:
        """Apply a tombstone, which removes the committed offset and pending ones."""
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(partition, None)
            if not offsets:
                del self._committed[group_id]
        for producer_id in tuple(self._transactions.get(group_id, ())):
            self._pending[producer_id][group_id].pop(partition, None)

    def end_transaction(self, producer_id: int, *, committed: bool) -> set[str]:
        """Apply a transaction's marker; return the groups of its offsets.

        An offset whose record is later in the log than the transactional one stays: the order of the log decides, because
        compaction may have removed either record."""
        pending = self._pending.pop(producer_id, {})
        for group_id, offsets in pending.items():
            open_in_group = self._transactions[group_id]
            open_in_group.discard(producer_id)
            if not open_in_group:
                del self._transactions[group_id]
            if not committed:
                continue
            for partition, offset in offsets.items():
                before = self.get(group_id, partition)
                if before is None or before.record_offset < offset.record_offset:
                    self.put(group_id, partition, offset)
        return set(pending)

    # -- writes in progress -----------------------------------------------------------------------------------------

    def announce(self, group_id: str, partitions: Iterable[PartitionKey]) -> None:
        """Note that offsets are being written. They are not visible yet, but deleting the group deletes them, too."""
        announced = self._announced.setdefault(group_id, {})
        for partition in partitions:
            announced[partition] = announced.get(partition, 0) + 1

    def settle(self, group_id: str, partitions: Iterable[PartitionKey]) -> None:
        """Note that a write has ended, with success or not."""
        announced = self._announced[group_id]
        for partition in partitions:
            left = announced[partition] - 1
            if left:
                announced[partition] = left
            else:
                del announced[partition]
        if not announced:
            del self._announced[group_id]

    # -- queries ----------------------------------------------------------------------------------------------------

    def get(self, group_id: str, partition: PartitionKey) -> CommittedOffset | None:
        """Return the committed offset, None if there is none."""
        offsets = self._committed.get(group_id)
        return None if offsets is None else offsets.get(partition)

    def of_group(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """Return all committed offsets of a group. A view: do not keep it."""
        return self._committed.get(group_id, {})

    def is_unstable(self, group_id: str, partition: PartitionKey) -> bool:
        """Whether an open transaction has an offset for the partition that may still be committed."""
        open_in_group = self._transactions.get(group_id)
        if open_in_group is None:
            return False
        return any(partition in self._pending[producer_id].get(group_id, ()) for producer_id in open_in_group)

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset: committed, pending or being written."""
        return group_id in self._committed or group_id in self._transactions or group_id in self._announced

    def is_settled(self, group_id: str) -> bool:
        """Whether no offset of the group is pending or being written."""
        return group_id not in self._transactions and group_id not in self._announced

    def groups(self) -> set[str]:
        """Return every group that has an offset: committed, pending or being written."""
        return {*self._committed, *self._transactions, *self._announced}

    def partitions_of(self, group_id: str) -> set[PartitionKey]:
        """Return every partition for which a group has an offset: committed, pending or being written."""
        partitions = {*self._committed.get(group_id, ()), *self._announced.get(group_id, ())}
        for producer_id in self._transactions.get(group_id, ()):
            partitions.update(self._pending[producer_id].get(group_id, ()))
        return partitions

    def of_topics(self, topics: frozenset[str]) -> Iterator[tuple[str, PartitionKey]]:
        """Yield (group, partition) of every offset of these topics."""
        for group_id in self.groups():
            for partition in self.partitions_of(group_id):
                if partition[0] in topics:
                    yield group_id, partition

    def __len__(self) -> int:
        return sum(map(len, self._committed.values()))

    # -- expiry -----------------------------------------------------------------------------------------------------

    def expired(
        self, group_id: str, kept_since: Callable[[str, int], int | None], now_ms: int, retention_ms: int
    ) -> list[PartitionKey]:
        """Return the partitions whose offsets have expired. `kept_since` returns for (topic, time of the commit) the time from which the retention
        counts, None if the offset is in use."""
        gone: list[PartitionKey] = []
        for partition, offset in self.of_group(group_id).items():
            if self.is_unstable(group_id, partition):
                continue
            since_ms = kept_since(partition[0], offset.committed_at_ms)
            if since_ms is not None and _is_over(offset, since_ms, now_ms, retention_ms):
                gone.append(partition)
        return gone


def _is_over(offset: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if offset.expires_at_ms != NO_EXPIRY:
        return now_ms >= offset.expires_at_ms
    return now_ms - since_ms >= retention_ms
