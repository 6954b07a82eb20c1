"""Partition logs on disk, in Apache Kafka's format.

LogManager creates and deletes each PartitionLog in one of the data folders (`folders/`); LogStart opens them at the start.
Upkeep and Cleaner work in the background. A PartitionLog is a LogCore (offsets, SegmentList, LogFolder) and parts that work
on it: append, follow, read, truncation, trim, flush. Flusher groups the syncs of one log. log_loader and recovery restore a
log after a crash.
"""

from __future__ import annotations

import logging
from typing import Final

logger: Final = logging.getLogger("streamactors.broker.log")
