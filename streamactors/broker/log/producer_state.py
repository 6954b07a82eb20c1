"""What one partition knows about the producers that write to it: epochs, the last five batches, open transactions.

Owner: PartitionLog, under its lock. Pure: no clock, no file. It is checked before a batch is written and updated after.
Rules: a batch equal to one of the last five is a duplicate; else it must follow the last one (sequence numbers wrap from
2^31 - 1 to 0), a new epoch begins at 0, an older epoch is fenced, and an unknown producer may begin anywhere. Source:
KIP-98 and Kafka's ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from streamactors.broker.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from streamactors.broker.log.transaction_index import AbortedTransaction
from streamactors.broker.records.header import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE

REMEMBERED_BATCHES: Final = 5
"""As many as a client may have in flight while it is idempotent."""


class BatchMetadata(NamedTuple):
    """One appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer. `batches` is empty if nothing but markers are known of it."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_seen_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.last_seen_ms = -1
        self.transaction_first_offset = -1  # first offset of the open transaction, -1 without one
        self.batches: deque[BatchMetadata] = deque(maxlen=REMEMBERED_BATCHES)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def __repr__(self) -> str:
        return f"ProducerEntry({self.producer_id}, epoch {self.producer_epoch}, last sequence {self.last_sequence})"


class ProducerState:
    """All producers of one partition. `end_offset` is the offset up to which batches have been taken in."""

    __slots__ = ("_open", "_unreplicated", "end_offset", "entries")

    def __init__(self, entries: Iterable[ProducerEntry] = (), end_offset: int = 0, now_ms: int = -1) -> None:
        self.entries = {entry.producer_id: entry for entry in entries}
        for entry in self.entries.values():
            entry.last_seen_ms = now_ms
        # first offset -> producer, in the order of offsets
        self._open = dict(
            sorted(
                (entry.transaction_first_offset, key)
                for key, entry in self.entries.items()
                if entry.transaction_first_offset >= 0
            )
        )
        # first offset -> offset of the marker, of transactions whose marker is not below the high watermark yet
        self._unreplicated: dict[int, int] = {}
        self.end_offset = end_offset

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, transactional: bool
    ) -> BatchMetadata | None:
        """Return the earlier batch if this one is its duplicate, None if it may be appended.

        Raises InvalidProducerEpoch, OutOfOrderSequence or InvalidTransactionState.
        """
        entry = self.entries.get(producer_id)
        if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return None
        if epoch == entry.producer_epoch:
            batches = entry.batches
            expected = (batches[-1].last_sequence + 1) & MAX_SEQUENCE if batches else 0
            if first_sequence != expected:
                for batch in batches:
                    if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                        return batch
                raise OutOfOrderSequence(
                    f"out of order sequence number for producer {producer_id}: {first_sequence} came, {expected} was expected"
                )
        elif epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {producer_id} is older than {entry.producer_epoch}, the last one seen"
            )
        elif first_sequence != 0:
            raise OutOfOrderSequence(
                f"invalid sequence number for new epoch {epoch} of producer {producer_id}: {first_sequence} came, 0 was expected"
            )
        if entry.transaction_first_offset >= 0 and not transactional:
            raise InvalidTransactionState(
                f"producer {producer_id} wrote outside its open transaction, which began at offset {entry.transaction_first_offset}"
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise InvalidProducerEpoch if a newer epoch has written."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {producer_id} is older than {entry.producer_epoch}, the last one seen"
            )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raise InvalidProducerEpoch or TransactionCoordinatorFenced for a marker that comes too late."""
        self.check_epoch(producer_id, epoch)
        entry = self.entries.get(producer_id)
        if entry is not None and coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker for producer {producer_id} of coordinator epoch {coordinator_epoch}; {entry.coordinator_epoch} is current"
            )

    def append(self, producer_id: int, epoch: int, batch: BatchMetadata, transactional: bool, now_ms: int) -> None:
        """Take in a batch that was appended."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if epoch != entry.producer_epoch:
            entry.producer_epoch = epoch
            entry.batches.clear()
        entry.batches.append(batch)
        entry.last_timestamp = batch.timestamp
        entry.last_seen_ms = now_ms
        if transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = batch.first_offset
            self._open[batch.first_offset] = producer_id

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        committed: bool,
        offset: int,
        timestamp: int,
        now_ms: int,
    ) -> AbortedTransaction | None:
        """Take in a marker that was appended at the offset; return the transaction if it had records and was aborted."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if epoch != entry.producer_epoch:
            entry.producer_epoch = epoch
            entry.batches.clear()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.last_seen_ms = now_ms
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, -1
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        if committed:
            return None
        stable = next(iter(self._open), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def first_unstable(self) -> int | None:
        """Return the first offset that read_committed must not pass yet, None if there is none."""
        opened = next(iter(self._open), None)
        if not self._unreplicated:
            return opened
        first = min(self._unreplicated)
        return first if opened is None or first < opened else opened

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Let go of transactions whose marker is replicated by now."""
        if self._unreplicated:
            self._unreplicated = {
                first: marker for first, marker in self._unreplicated.items() if marker >= high_watermark
            }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that have not written for so long; return how many."""
        idle = [
            key
            for key, entry in self.entries.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_seen_ms >= expiration_ms
        ]
        for key in idle:
            del self.entries[key]
        return len(idle)
