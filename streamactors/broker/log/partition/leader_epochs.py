"""The start offset of each leader epoch. Replicas compare them to find where their logs diverge.

Owner: PartitionLog. Pure, but for `encode` and `decode` of the file leader-epoch-checkpoint. Source: KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from streamactors.broker.log.checkpoint_text import decode_lines, encode_lines

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED: Final = -1


class EpochStart(NamedTuple):
    """An epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def common_end(theirs: tuple[int, int], ours: tuple[int, int], end_offset: int) -> int:
    """Return where a follower truncates its log, which ends at `end_offset`, so that it agrees with the leader's.

    `theirs` is (epoch, end offset) of the leader's greatest epoch that is at most the follower's last one. `ours` is the same of
    the follower's greatest epoch that is at most the leader's, (-1, -1) without one. If the follower does not know the leader's
    epoch, the logs can still differ below the result: the next answer of the leader says so."""
    epoch, own_end = ours
    if epoch < 0:
        return min(theirs[1], end_offset)
    return min(own_end, theirs[1], end_offset) if epoch == theirs[0] else min(own_end, end_offset)


class LeaderEpochs:
    """Entries in order; epochs and start offsets both grow."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries: list[EpochStart] = []
        self.latest = UNDEFINED
        for entry in entries or ():
            self.assign(*entry)

    def copy(self) -> LeaderEpochs:
        """Return a copy, which can be changed and saved before it is used."""
        copied = LeaderEpochs()
        copied._entries, copied.latest = list(self._entries), self.latest
        return copied

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def start_offset(self) -> int:
        """Start offset of the first known epoch, which moves with the log start; 0 without one."""
        return self._entries[0].start_offset if self._entries else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an epoch that begins at the offset. Return whether it is new.

        Contradicting entries are removed: epochs without records, and on a follower epochs that its leader never had."""
        if epoch < 0 or epoch == self.latest:
            return False
        entries = self._entries
        while entries and (entries[-1].start_offset >= start_offset or entries[-1].epoch >= epoch):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self.latest = epoch
        return True

    def at(self, offset: int) -> int:
        """Return the epoch of the offset; -1 before the first known epoch."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else UNDEFINED

    def contradicts(self, epoch: int, offset: int) -> bool:
        """Whether the known epochs exclude a batch of this epoch at this offset."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at:
            return epoch != self._entries[at - 1].epoch
        return epoch > (self._entries[0].epoch if self._entries else UNDEFINED) or epoch < UNDEFINED

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the greatest known epoch that is at most `epoch`; (-1, -1) without one."""
        if epoch == UNDEFINED or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end = self._entries[above].start_offset
        return (self._entries[above - 1].epoch if above else epoch), end

    def truncate_to(self, offset: int) -> bool:
        """Remove the epochs that began at or after the new log end. Return whether anything changed."""
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        return self._replace(kept)

    def truncate_from_start(self, offset: int) -> bool:
        """Remove the epochs that ended at or before the new log start. Return whether anything changed."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at == 0:
            return False
        return self._replace([EpochStart(self._entries[at - 1].epoch, offset), *self._entries[at:]])

    def clear(self) -> bool:
        """Remove all epochs. Return whether anything changed."""
        return self._replace([])

    def _replace(self, entries: list[EpochStart]) -> bool:
        if entries == self._entries:
            return False
        self._entries = entries
        self.latest = entries[-1].epoch if entries else UNDEFINED
        return True

    def encode(self) -> bytes:
        """The file's content."""
        return encode_lines(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """Read the file's content. Raises ValueError if it is damaged."""
        return cls([EpochStart(int(epoch), int(start)) for epoch, start in decode_lines(data, 2)])
