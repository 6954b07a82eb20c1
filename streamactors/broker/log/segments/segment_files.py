"""Names of the files in a partition's folder: the base offset in 20 digits plus a suffix.

Source: Kafka's log format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""Offsets in a segment are kept relative to its base, in 31 bits."""


def segment_path(directory: Path, base_offset: int, suffix: str, extra: str = "") -> Path:
    """Return the path of one of a segment's files; `extra` is .deleted, .cleaned or .swap."""
    return directory / f"{base_offset:020d}{suffix}{extra}"


def snapshot_path(directory: Path, offset: int) -> Path:
    """Return the path of the producer snapshot of an offset."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"
