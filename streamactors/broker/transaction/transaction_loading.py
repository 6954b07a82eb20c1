"""Reading a partition of the transaction topic: what a new coordinator knows.

Owner: a helper thread, until what it returns is handed to the coordinator."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from streamactors.broker.coordinator.record_codec import CorruptRecord
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.transaction.transaction import Transaction
from streamactors.broker.transaction.transaction_messages import Loaded
from streamactors.broker.transaction.transaction_record import decode_transaction_key, decode_transaction_value

_log = logging.getLogger("streamactors.broker.transaction")


def load_transactions(batches: Iterable[RecordBatch], name: str) -> Loaded:
    """Fold a partition: the last record of each id. One that cannot be read is named in the log and left out."""
    transactions: dict[str, Transaction] = {}
    for batch in batches:
        for record in batch.records() if batch.count and not batch.is_control else ():
            try:
                transactional_id = decode_transaction_key(record.key or b"")
                if transactional_id is None:
                    continue
                if record.value is None:
                    transactions.pop(transactional_id, None)
                else:
                    transactions[transactional_id] = decode_transaction_value(transactional_id, record.value)
            except CorruptRecord as error:
                _log.error("%s: the record at offset %d is left out: %s", name, record.offset, error)
    return Loaded(transactions)
