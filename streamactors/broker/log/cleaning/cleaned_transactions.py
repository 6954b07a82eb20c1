"""Tells compaction which batches belong to aborted transactions, in the order of the log.

Owner: one pass of the cleaner. A marker may be removed only when no record of its transaction is left before it. Source:
Kafka's CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from streamactors.broker.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker


class CleanedTransactions:
    """Call it for every batch in order. Retained aborted transactions are added to `index`, if there is one."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTransaction]] = []  # a heap by first offset
        self._known: set[AbortedTransaction] = set()
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}  # by producer; whether a batch of it was seen
        self._committed: set[int] = set()  # producers of whose open, not aborted, transaction a batch was seen
        self.index: TransactionIndex | None = None

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that touch the following offsets."""
        for transaction in transactions:
            if transaction not in self._known:
                self._known.add(transaction)
                heappush(self._coming, (transaction.first_offset, transaction))

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, (transaction, False))

    def data_was_aborted(self, batch: RecordBatch) -> bool:
        """Whether a data batch belongs to an aborted transaction, so that compaction removes it."""
        self._advance(batch.last_offset)
        if not batch.is_transactional:
            return False
        entry = self._aborted.get(batch.producer_id)
        if entry is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = (entry[0], True)
        return True

    def marker_is_idle(self, batch: RecordBatch) -> bool:
        """Whether a control batch ends a transaction without retained records, so that it may be removed later."""
        self._advance(batch.last_offset)
        if batch.count == 0:
            return True
        marker = read_marker(batch)
        if marker is None:
            return False
        if marker.committed:
            seen = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not seen
        entry = self._aborted.pop(batch.producer_id, None)
        if entry is None or not entry[1]:
            return True
        if self.index is not None:
            self.index.append(entry[0])
        return False
