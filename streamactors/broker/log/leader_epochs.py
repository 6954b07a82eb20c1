"""Which leader epoch began at which offset: what replicas compare to find where their logs part.

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


class LeaderEpochs:
    """Entries in order; epochs and start offsets both grow."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries: list[EpochStart] = []
        self.latest = UNDEFINED
        for entry in entries or ():
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def start_offset(self) -> int:
        """Where the first known epoch begins, which moves with the log's start; 0 if none is known."""
        return self._entries[0].start_offset if self._entries else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch begins at an offset; return whether that was new.

        Entries that it contradicts go: epochs that wrote nothing, and on a follower those that its leader never had."""
        if epoch < 0 or epoch == self.latest:
            return False
        entries = self._entries
        while entries and (entries[-1].start_offset >= start_offset or entries[-1].epoch >= epoch):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self.latest = epoch
        return True

    def at(self, offset: int) -> int:
        """Return the epoch in which the offset was, or will be, written; -1 before the first known one."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else UNDEFINED

    def contradicts(self, epoch: int, offset: int) -> bool:
        """Whether a batch of that epoch cannot be at that offset, going by the epochs that are known."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at:
            return epoch != self._entries[at - 1].epoch
        return epoch > (self._entries[0].epoch if self._entries else UNDEFINED) or epoch < UNDEFINED

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the greatest known epoch that is not above the asked one; (-1, -1) if unknown."""
        if epoch == UNDEFINED or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end = self._entries[above].start_offset
        return (self._entries[above - 1].epoch if above else epoch), end

    def truncate_to(self, offset: int) -> bool:
        """Forget epochs that began at or after the offset, which is the log's new end. Returns whether there were any."""
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        return self._replace(kept)

    def truncate_from_start(self, offset: int) -> bool:
        """Forget epochs that ended at or before the offset, the log's new start. Returns whether anything changed."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at == 0:
            return False
        return self._replace([EpochStart(self._entries[at - 1].epoch, offset), *self._entries[at:]])

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
        """Read the file's content. Raises ValueError if it is none."""
        return cls([EpochStart(int(epoch), int(start)) for epoch, start in decode_lines(data, 2)])
