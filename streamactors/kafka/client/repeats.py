"""Drops records that librdkafka returns a second time within one assignment.

librdkafka has been seen to return offsets 0 to 19 of a partition twice, without a rebalance, a seek or a reset: both copies would be processed, and
with transactions both would be committed. A record has one pair of offset and leader epoch, so a record with a known pair is a copy.
Where records with lower offsets are new, librdkafka reports it: a truncated log continues with a higher epoch, and a reset
(`auto.offset.reset`) is logged.

Owner: StreamConsumer, on the thread that reads. Cost: two calls per run of records."""

from __future__ import annotations

import logging
from typing import Any

from streamactors.kafka.client.runs import RecordRun, run_of
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.kafka")


class Repeats:
    """The last record of each partition that was handed out since its assignment, seek or reset."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[int, int | None]] = {}  # offset, leader epoch

    def begin_again(self, key: TopicPartition) -> None:
        """The client now reads this partition from another offset."""
        self._last.pop(key, None)

    def begin_all_again(self) -> None:
        """The assignment changed while records were read."""
        self._last.clear()

    def without(self, run: RecordRun) -> RecordRun | None:
        """Return the run without the records that were handed out before; None if there is no other."""
        last = self._last.get(run.key)
        if last is not None and run.records[0].offset() <= last[0] and _same_epoch(run.records[0], last[1]):
            kept = [message for message in run.records if message.offset() > last[0]]
            left_out = len(run.records) - len(kept)
            log_limited(
                _log,
                logging.WARNING,
                run.key,
                "%s: librdkafka returned %d records twice, from offset %d on; the second copies are dropped",
                run.key,
                left_out,
                run.records[0].offset(),
            )
            if not kept:
                return None
            run = run_of(run.key, kept)
        newest = run.records[-1]
        self._last[run.key] = newest.offset(), newest.leader_epoch()
        return run


def _same_epoch(message: Any, epoch: int | None) -> bool:
    """True if the log has not been rewritten since a record of `epoch`. Unknown epochs (old brokers) prove nothing."""
    return epoch is not None and (found := message.leader_epoch()) is not None and found <= epoch
