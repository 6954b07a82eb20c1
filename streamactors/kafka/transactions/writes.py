"""The records that the sinks of a run have written into the open transaction: kept, so that they can be written again.

After a rebalance that the consumer does not know of yet, the broker refuses the positions, and the transaction must be aborted. As long as their
partitions are still assigned here, the records are written again in the same order and committed under the new membership. A reader of
committed records never sees the aborted ones.

Owner: the run's transaction. Sinks keep the records they have sent, each from its island; everything else happens on the producer's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from streamactors.kafka.client.diagnosis.delivery_errors import is_purged
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.writing.deliveries import as_record

KEPT = 100_000
"""The most records that are kept; a larger transaction cannot be written again, so its failure fails the run."""


def elapsed_s() -> float:
    """Return a time that advances while the machine sleeps, like the broker's."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class TransactionWrites:
    """Keeps the records of the open transaction, so that they can be written again. `on_lost(error)` is called for the first record that was not delivered, on the thread that serves the reports."""

    def __init__(
        self, on_lost: Callable[[BaseException], None], not_delivered: Callable[[ProducerRecord, Any], BaseException]
    ) -> None:
        self.lost: BaseException | None = None
        self.repeatable = True
        """False when a stage has emitted the offsets of its records: written again, they have other offsets."""
        self._on_lost = on_lost
        self._not_delivered = not_delivered
        self._columns: list[
            tuple[Any, ...]
        ] = []  # not the records: these would be walked over by every collection of garbage
        self._n = 0
        self._opened_s: float | None = None

    def opened(self) -> None:
        """Something is about to be written; the broker counts the transaction's age from the first record or position."""
        if self._opened_s is None:
            self._opened_s = elapsed_s()

    @property
    def age_s(self) -> float:
        """The age of the transaction, as the broker counts it or more; 0 if nothing was written."""
        return 0.0 if self._opened_s is None else elapsed_s() - self._opened_s

    def report(self, error: Any, message: Any) -> None:
        """Take librdkafka's delivery report of a record."""
        if error is not None and self.lost is None and not is_purged(error):
            self.lost = self._not_delivered(as_record(message), error)
            self._on_lost(self.lost)

    def keep(self, records: Sequence[ProducerRecord]) -> None:
        """Records were sent."""
        self._n += len(records)
        if self._n <= KEPT and self.repeatable:
            self._columns.append(tuple(zip(*records, strict=True)))
        elif self._columns:
            self._columns.clear()

    @property
    def complete(self) -> bool:
        """True when every record of the transaction can be written again."""
        return self.why_not_again is None and self.lost is None

    @property
    def why_not_again(self) -> str | None:
        """Why this transaction cannot be written again, with the way out; None if it can."""
        if not self.repeatable:
            return (
                "Transactional.flow has emitted the offsets of its records, so they cannot be written again at other offsets: put the graph into a "
                "RestartSource, or write by Transactional.sink"
            )
        if self._n > KEPT:
            return (
                f"its {self._n} records exceed the {KEPT} that are kept to be written again; lower commit_interval_ms"
            )
        return None

    def write_again(self, producer: StreamProducer) -> None:
        """Send the kept records, waiting while the queue is full."""
        self._opened_s = elapsed_s()
        for columns in self._columns:
            producer.send_all(map(ProducerRecord, *columns), self.report)

    def begin(self) -> None:
        """A new transaction begins: drop the kept records."""
        self._columns.clear()
        self._n = 0
        self._opened_s = None
