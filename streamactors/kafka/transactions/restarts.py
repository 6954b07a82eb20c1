"""Which failures of a run's transaction a new run in the same process repairs.

The partitions were taken away, or the membership is stale for good: the next run reads the records from the committed positions again. The broker has
aborted a transaction that lasted too long, as after a freeze: likewise, also if a record of it was not delivered in time, or a call of the transaction
had no answer in time. If the transaction was not overdue, another producer has taken the
transactional id. It would be fenced by a restart, and restart itself: the older producer ends, so that one of the two remains.

Owner: the run's transaction."""

from __future__ import annotations

from typing import Final

from streamactors.engine.island.run import Run
from streamactors.kafka.client.diagnosis.delivery_errors import (
    LostId,
    NotDeliveredInTime,
    NotInTime,
    StaleMembership,
)
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transactions.offsets import TakenAway, TransactionOffsets
from streamactors.kafka.transactions.writes import TransactionWrites

LIBRDKAFKA_TIMEOUT_MS: Final = 60_000
"""transaction.timeout.ms, where the properties do not say it."""
CLOCKS_AGREE: Final = 0.95
"""A transaction counts as overdue a little early: the clocks of two machines differ."""


def look_for_a_restart(
    run: Run,
    settings: ProducerSettings,
    offsets: TransactionOffsets,
    writes: TransactionWrites,
    error: BaseException,
) -> None:
    """Note on the run that a new one repairs `error`, or in the error why none begins. Before any stage fails of it."""
    if not isinstance(error, TakenAway | StaleMembership | LostId | NotDeliveredInTime | NotInTime):
        return
    overdue = is_overdue(settings, writes.age_s)
    if isinstance(error, NotDeliveredInTime | NotInTime) and not overdue:
        return
    why_not = run.why_no_restart
    if not why_not and not run.may_restart:
        why_not = "on_fenced is 'fail', or the transaction is that of a stage inside another one"
    if not why_not and any(source not in offsets for source, _ in run.source_of.values()):
        why_not = "a source has positions that the transaction does not commit"
    if not why_not and isinstance(error, LostId) and not overdue:
        why_not = "its transaction was not overdue, so another producer has the id, and a restart would fence that one"
    if why_not:
        error.args = (f"{error}; the run is not restarted in its process: {why_not}",)
    else:
        run.restart_because = error


def is_overdue(settings: ProducerSettings, age_s: float) -> bool:
    """Return whether the broker aborts a transaction of this age."""
    timeout_ms = float(settings.client_properties().get("transaction.timeout.ms", LIBRDKAFKA_TIMEOUT_MS))
    return age_s * 1_000 >= timeout_ms * CLOCKS_AGREE
