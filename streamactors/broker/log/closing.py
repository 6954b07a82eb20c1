"""Closing many logs at once: each is synced, and a disk merges the syncs of logs that sync at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from streamactors.broker.errors import StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.partition.partition_log import PartitionLog

FEW: Final = 16
"""Up to this many logs are closed one after the other."""

THREADS: Final = 8


def close_all(logs: Sequence[PartitionLog]) -> None:
    """Close logs. An error is logged, and the log is then not `closed_in_order`."""
    if len(logs) <= FEW:
        for log in logs:
            _close(log)
    else:
        with ThreadPoolExecutor(THREADS, "streamactors-closing") as threads:
            list(threads.map(_close, logs))


def _close(log: PartitionLog) -> None:
    try:
        log.close()
    except StorageError as error:
        logger.error("%s", error)
