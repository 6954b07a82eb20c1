"""Reads the records of a partition's folder, of either broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.record import Record


def records_of(folder: Path) -> Iterator[Record]:
    """Yield the records with a key, in the order of the log."""
    for segment in sorted(folder.glob("*.log")):
        for batch in iter_batches(segment.read_bytes()):
            if not batch.is_control:
                yield from (record for record in batch.records() if record.key is not None)
