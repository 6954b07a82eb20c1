"""Opens a partition's folder: finishes interrupted file operations and recovers damaged segments.

Owner: LogManager at start, before the log is shared. After a clean shutdown only the end of the last segment is read. Otherwise
every segment from the recovery point on is checked, the log is truncated at the first damage, and later segments are removed.
Folders of Apache Kafka are read the same way. Source: Kafka's LogLoader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from streamactors.broker.errors import StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.config import LONG_MAX, LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition.damage import KnownEnd, damaged_end
from streamactors.broker.log.partition.leader_epochs import FILE_NAME as LEADER_EPOCHS
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.partition.log_folder import COMPACTED
from streamactors.broker.log.partition.recovery import BatchChecker, recover_segment
from streamactors.broker.log.producers.producer_replay import load_producers
from streamactors.broker.log.producers.producer_snapshot import encode_snapshot, snapshot_offsets
from streamactors.broker.log.producers.producer_state import ProducerState
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
    snapshot_path,
)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The entries of the broker's checkpoint files for one partition."""

    clean: bool = False
    """The broker was shut down cleanly."""
    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int = 0
    strict: bool = True
    """This broker wrote the log, so recovery relies on its rules: contiguous offsets, epochs on disk first."""
    each_synced: bool = False
    """Each batch was on the disk before the next one was written: only the last one can be torn."""
    others_have_it: bool = False
    """Other nodes have the records of such a log, so that recovery may remove what follows the damage. Otherwise the damage is an error."""


@dataclass(slots=True)
class LoadedLog:
    """The recovered content of the folder."""

    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    log_start_offset: int
    end_offset: int
    recovery_point: int
    recovered: bool
    lost_end: KnownEnd | None = None
    """The former end of the log, if recovery removed records that were known to be on the disk; else None."""


def load_log(
    disk: Disk, directory: Path, name: str, config: LogConfig, checkpoints: Checkpoints, now_ms: int
) -> LoadedLog:
    """Open the folder. Raises OSError; damage is repaired and logged, and raised as StorageError only for a log of which each batch was synced."""
    names = disk.names(directory)
    swapped = _finish_interrupted(disk, directory, config, names)
    if swapped < LONG_MAX:
        names = disk.names(directory)
    epochs, epochs_known = _load_epochs(disk, directory)
    segments = _find_segments(disk, directory, config, set(names))
    log_start = checkpoints.log_start_offset
    recover_from = min(checkpoints.recovery_point, swapped)
    if checkpoints.clean and swapped == LONG_MAX:
        end = segments[-1].next_offset() if segments else log_start
        recover_from = LONG_MAX if end is not None else segments[-1].base_offset
    else:
        end = None
    recovered, lost_end = False, None
    if end is None and segments:
        checker = BatchChecker(
            epochs,
            learn_epochs=not (epochs_known and checkpoints.strict),
            gaps=config.compacts or swapped < LONG_MAX or not checkpoints.strict or disk.exists(directory / COMPACTED),
        )
        end, lost_end = _recover(disk, directory, name, segments, checker, recover_from, log_start, now_ms, checkpoints)
        recovered = True
    end = log_start if end is None else end
    if segments and end < log_start:
        logger.warning("%s: the log ends at offset %d, before its start %d; the log is now empty", name, end, log_start)
        for segment in segments:
            _remove(disk, segment.paths())
        segments.clear()
    if not segments:
        end = log_start
        segments.append(Segment.create(disk, directory, log_start, config, now_ms))
    log_start = max(log_start, segments[0].base_offset)
    # An epoch that began at the end belongs to records to come. After a crash a new leader epoch follows, so it goes.
    changed = epochs.truncate_to(end if recovered else end + 1) | epochs.truncate_from_start(log_start)
    if changed or (recovered and epochs.latest >= 0):
        disk.write_atomically(directory / LEADER_EPOCHS, epochs.encode())
    _remove_stray_snapshots(disk, directory, segments, end)
    producers = load_producers(disk, directory, segments, log_start, end, now_ms, checkpoints.high_watermark)
    point = end if not recovered else max(min(checkpoints.recovery_point, end), log_start)
    return LoadedLog(segments, producers, epochs, log_start, end, point, recovered, lost_end)


def _recover(
    disk: Disk,
    directory: Path,
    name: str,
    segments: list[Segment],
    checker: BatchChecker,
    recover_from: int,
    log_start: int,
    now_ms: int,
    checkpoints: Checkpoints,
) -> tuple[int, KnownEnd | None]:
    """Recover the segments from the one with the offset before `recover_from` on. Return the log end, and `LoadedLog.lost_end`.

    That segment may have been truncated to the offset without a sync of the truncation."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset < recover_from:
        first += 1
    base = segments[first].base_offset
    # A snapshot may contain lost records: later ones, or those of lost segments. Records removed by retention are not lost: a
    # retry of one must still be a duplicate. The first epoch begins where they ended.
    trusted = min(base, max(recover_from, log_start, checker.epochs.start_offset))
    for offset in snapshot_offsets(disk, directory):
        if offset > trusted:
            disk.remove(snapshot_path(directory, offset))
    producers = load_producers(disk, directory, segments[:first], log_start, base, now_ms, base)
    end, lost_end = base, None
    for index in range(first, len(segments)):
        segment = segments[index]
        limit = segments[index + 1].base_offset if index + 1 < len(segments) else None
        found = recover_segment(segment, producers, checker, limit, now_ms)
        end, damage = found.next_offset, found.damage
        if damage is None and limit is not None and end < limit and not checker.gaps:
            damage = f"the next segment begins at offset {limit}"
        if damage is not None and checkpoints.each_synced:
            rest = b"".join(
                each.log.read_at(each.size, found.position if each is segment else 0) for each in segments[index:]
            )
            lost_end = damaged_end(rest, end, checkpoints.high_watermark, checker.epochs.latest)
            if lost_end is not None:
                tell_damage(name, directory, end, damage, lost_end, others_have_it=checkpoints.others_have_it)
        if damage is not None:
            # Batches beyond the next segment's base are from before a truncation to it: the next segment stays.
            lost, later = segment.size - found.position, [] if end == limit else segments[index + 1 :]
            logger.warning(
                "%s: damaged at offset %d: %s; %d bytes and %d later segments are removed",
                name, end, damage, lost, len(later),
            )  # fmt: skip
            segment.truncate(found.position, end)
            for gone in later:
                _remove(disk, gone.paths())
            if end != limit:
                del segments[index + 1 :]
                break
        if limit is not None:
            end = limit
            segment.close_for_append()
            producers.end_offset = end
            disk.write(snapshot_path(directory, end), encode_snapshot(producers.entries.values()))
    return end, lost_end


def tell_damage(
    name: str, directory: Path, offset: int, damage: str, lost_end: KnownEnd, *, others_have_it: bool
) -> None:
    """Log that records which were on the disk are damaged. Raises StorageError if no other node has them; the files are unchanged then."""
    where = (
        f"{name} is damaged at record {offset} ({damage}), and records up to {lost_end.end_offset - 1} were on the disk"
    )
    if not others_have_it:
        raise StorageError(f"{where}; restore {directory} from a copy, or start with another --data folder")
    logger.error("%s; they are removed here and copied again from the other nodes; look at the disk", where)


def _load_epochs(disk: Disk, directory: Path) -> tuple[LeaderEpochs, bool]:
    """Return the epochs, and whether the file was there and good."""
    try:
        return LeaderEpochs.decode(disk.read(directory / LEADER_EPOCHS)), True
    except (FileNotFoundError, ValueError):
        return LeaderEpochs(), False


def _find_segments(disk: Disk, directory: Path, config: LogConfig, names: set[str]) -> list[Segment]:
    bases = sorted(_bases(names, LOG_SUFFIX))
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for base in set(_bases(names, suffix)) - set(bases):
            disk.remove(segment_path(directory, base, suffix))
    return [Segment.existing(disk, directory, base, config) for base in bases]


def _finish_interrupted(disk: Disk, directory: Path, config: LogConfig, names: list[str]) -> int:
    """Finish interrupted deletions and replacements of segments. Return the first offset of a finished replacement.

    A replacement is valid once its .log file is named .swap. Before that, the old segments are valid."""
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            disk.remove(directory / name)
    unfinished = min(_bases(names, LOG_SUFFIX + CLEANED_SUFFIX), default=LONG_MAX)
    first = LONG_MAX
    for base in sorted(_bases(names, LOG_SUFFIX + SWAP_SUFFIX)):
        if base >= unfinished:
            continue
        swap = Segment.existing(disk, directory, base, config, SWAP_SUFFIX)
        end = swap.next_offset()
        for old in _bases(disk.names(directory), LOG_SUFFIX):
            if old == base or (end is not None and base < old < end):
                _remove(disk, (segment_path(directory, old, suffix) for suffix in SEGMENT_SUFFIXES))
        disk.rename(swap.log.path, segment_path(directory, base, LOG_SUFFIX))
        first = min(first, base)
    for name in names if first == LONG_MAX else disk.names(directory):
        if name.endswith(SWAP_SUFFIX):
            disk.remove(directory / name)  # Indexes are rebuilt.
    return first


def _bases(names: Iterable[str], suffix: str) -> list[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit()]


def _remove(disk: Disk, paths: Iterable[Path]) -> None:
    for path in paths:
        disk.remove(path)


def _remove_stray_snapshots(disk: Disk, directory: Path, segments: list[Segment], end: int) -> None:
    """Keep the snapshots at segments' bases and the latest one."""
    offsets = snapshot_offsets(disk, directory)
    keep = {segment.base_offset for segment in segments} | set([offset for offset in offsets if offset <= end][-1:])
    for offset in offsets:
        if offset not in keep or offset > end:
            disk.remove(snapshot_path(directory, offset))
