"""What the sinks of a run have written into the open transaction: kept, so that it can be written again.

A rebalance that the consumer does not know of yet makes the broker refuse the positions, and nothing is left of such a transaction but
to abort it. Its records are not lost with it: as long as their partitions are still ours they are written again, in the same order, and
committed under the new membership. Nobody who reads committed records has seen the first ones.

Owner: the run's transaction. Sinks keep what they have sent, each from its island; all else is the producer's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamactors.kafka.client_producer import StreamProducer, is_purged, not_delivered
from streamactors.kafka.deliveries import as_record
from streamactors.kafka.producer_record import ProducerRecord

KEPT = 100_000
"""More records than this are not kept: the failure of such a transaction is the failure of the run."""


class TransactionWrites:
    """See the module. `on_lost` hears of the first record that could not be delivered; on whatever thread serves the reports."""

    def __init__(self, on_lost: Callable[[BaseException], None]) -> None:
        self.lost: BaseException | None = None
        self.repeatable = True
        """False when somebody was told where the records are: written again they are elsewhere."""
        self._on_lost = on_lost
        self._columns: list[
            tuple[Any, ...]
        ] = []  # not the records: these would be walked over by every collection of garbage
        self._n = 0

    def report(self, error: Any, message: Any) -> None:
        """librdkafka's report of a record."""
        if error is not None and self.lost is None and not is_purged(error):
            self.lost = not_delivered(as_record(message), error)
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
        """True when all that the transaction holds can be written again."""
        return self.why_not_again is None and self.lost is None

    @property
    def why_not_again(self) -> str | None:
        """What keeps this transaction from being written again, with the way out; None where nothing in its nature does."""
        if not self.repeatable:
            return (
                "Transactional.flow has told where its records are, so they cannot be written again elsewhere: put the graph into a "
                "RestartSource, or write by Transactional.sink"
            )
        if self._n > KEPT:
            return (
                f"its {self._n} records are more than are kept to be written again ({KEPT}); lower commit_interval_ms"
            )
        return None

    def write_again(self, producer: StreamProducer) -> None:
        """Send all that was kept, waiting while the queue is full."""
        for columns in self._columns:
            producer.send_all(map(ProducerRecord, *columns), self.report)

    def begin(self) -> None:
        """A transaction begins with nothing in it."""
        self._columns.clear()
        self._n = 0
