"""Retention and compaction of one partition.

Owner: the cluster, at every log.retention.check.interval.ms. Batches are removed one by one, not by segments, except the last one. Compaction
keeps the newest record of each key below the high watermark, drops those of aborted transactions, and drops tombstones that are older than
delete.retention.ms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.simulation.cluster.partitions.batch import Batch, MarkerBatch

if TYPE_CHECKING:
    from streamactors.simulation.cluster.partitions.log import Log
    from streamactors.simulation.cluster.partitions.partition import Partition


def clean(partition: Partition, now_ms: int) -> None:
    """Remove what the topic's settings let go. `now_ms` is the wall clock."""
    rules, log = partition.rules, partition.log
    if rules.deleted:
        upto = partition.high_watermark
        for batch in log.batches[:-1]:
            old = rules.retention_ms >= 0 and batch.max_timestamp < now_ms - rules.retention_ms
            large = rules.retention_bytes >= 0 and log.size - batch.size >= rules.retention_bytes
            if batch.last_offset >= upto or not (old or large):
                break
            log.trim(batch.last_offset + 1)
    if rules.compacted:
        _compact(partition, now_ms)


def _compact(partition: Partition, now_ms: int) -> None:
    log, rules = partition.log, partition.rules
    limit = min(partition.stable_end, log.batches[-1].base_offset if log.batches else 0)
    newest: dict[bytes | None, int] = {}
    below = [batch for batch in log.batches if batch.last_offset < limit]
    below = [batch for batch in below if batch.max_timestamp <= now_ms - rules.min_compaction_lag_ms]
    for batch in below:
        if not isinstance(batch, MarkerBatch) and not log.is_aborted(batch):
            for offset, row in zip(batch.numbered(), batch.rows, strict=True):
                newest[row[0]] = offset
    old_ms = now_ms - rules.delete_retention_ms
    cleaned = {id(batch) for batch in below}
    kept = [_kept(log, batch, newest, old_ms) if id(batch) in cleaned else batch for batch in log.batches]
    log.batches = [batch for batch in kept if batch is not None]
    log.size = sum(batch.size for batch in log.batches)


def _kept(log: Log, batch: Batch, newest: dict[bytes | None, int], old_ms: int) -> Batch | None:
    """Return the batch with what stays of it. None: nothing."""
    if isinstance(batch, MarkerBatch):
        return batch
    aborted = log.is_aborted(batch)
    pairs = [
        (offset, row)
        for offset, row in zip(batch.numbered(), batch.rows, strict=True)
        if not aborted and newest[row[0]] == offset and (row[1] is not None or row[2] > old_ms)
    ]
    if len(pairs) == len(batch.rows):
        return batch
    if not pairs and not log.producers.entries.get(batch.producer_id):
        return None
    made = batch.copy_of([row for _, row in pairs])
    made.offsets = [offset for offset, _ in pairs]
    return made
