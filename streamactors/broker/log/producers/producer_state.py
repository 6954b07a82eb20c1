"""The producer state of one partition: epochs, the last five batches of each producer, open transactions.

Owner: PartitionLog, under its lock. Pure: no clock, no file. The log checks it before a write and updates it after.
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
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.header import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE

REMEMBERED_BATCHES: Final = 5
"""The maximum of in-flight requests of an idempotent client."""
_MAX_EPOCH: Final = 32_767  # int16


class BatchMetadata(NamedTuple):
    """One appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer. `batches` is empty if only markers of it are known."""

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
    """All producers of one partition, from the batches below `end_offset`."""

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
        """Return the earlier batch that this one duplicates, None if this one may be appended.

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
                    f"out of order sequence number for producer {producer_id}: got {first_sequence}, expected {expected}"
                )
        elif epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {producer_id} is older than {entry.producer_epoch}, the last one seen"
            )
        elif first_sequence != 0:
            raise OutOfOrderSequence(
                f"invalid sequence number for new epoch {epoch} of producer {producer_id}: got {first_sequence}, expected 0"
            )
        if entry.transaction_first_offset >= 0 and not transactional:
            raise InvalidTransactionState(
                f"producer {producer_id} wrote outside its open transaction, which began at offset {entry.transaction_first_offset}"
            )
        return None

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """Return the sequence number that the producer's next batch must begin with, None if the producer is unknown and may begin anywhere."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return None
        return (entry.last_sequence + 1) & MAX_SEQUENCE if epoch == entry.producer_epoch else 0

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise InvalidProducerEpoch if a newer epoch has already written."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {producer_id} is older than {entry.producer_epoch}, the last one seen"
            )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raise InvalidProducerEpoch or TransactionCoordinatorFenced for a marker with an old epoch."""
        self.check_epoch(producer_id, epoch)
        entry = self.entries.get(producer_id)
        if entry is not None and coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"marker for producer {producer_id} has coordinator epoch {coordinator_epoch}, the current one is {entry.coordinator_epoch}"
            )

    def marker_is_stale(self, producer_id: int, epoch: int) -> bool:
        """Whether a marker of transaction.version 2 is older than the producer's open transaction (KIP-890).

        Its epoch is newer than that of the records which it ends. With the epoch of the last marker it is that marker again, which does no
        harm while no transaction is open. The greatest epoch has no records and only ends."""
        entry = self.entries.get(producer_id)
        if entry is None or epoch > entry.producer_epoch:
            return False
        repeats = epoch == entry.producer_epoch and (entry.transaction_first_offset < 0 or epoch == _MAX_EPOCH)
        return not repeats

    def append(self, producer_id: int, epoch: int, batch: BatchMetadata, transactional: bool, now_ms: int) -> None:
        """Add an appended batch."""
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
        """Add a marker that was appended at the offset. Return the transaction if the marker aborts one with records."""
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
        """Return the first offset that read_committed must not pass, None without one."""
        opened = next(iter(self._open), None)
        if not self._unreplicated:
            return opened
        first = min(self._unreplicated)
        return first if opened is None or first < opened else opened

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Remove the ended transactions whose marker is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {
                first: marker for first, marker in self._unreplicated.items() if marker >= high_watermark
            }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without an open transaction that have been silent for `expiration_ms`. Return their number."""
        idle = [
            key
            for key, entry in self.entries.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_seen_ms >= expiration_ms
        ]
        for key in idle:
            del self.entries[key]
        return len(idle)
