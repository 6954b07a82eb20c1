"""What the leader of the metadata log knows about the voters: where their logs end on disk, and when they fetched last. Pure.

Owner: `RaftState` while it leads. Source: KIP-595; KIP-835 for the check of the quorum."""

from __future__ import annotations

from collections.abc import Set


class LeaderProgress:
    """The progress of the voters in one epoch, which begins at the leader's log end at its election."""

    def __init__(self, me: int, voters: Set[int], epoch_start: int, now_ms: float) -> None:
        self._me = me
        self._epoch_start = epoch_start
        self._ends = dict.fromkeys(voters, -1)
        self._fetched_at_ms = dict.fromkeys(voters - {me}, now_ms)

    def stored(self, voter: int, end_offset: int) -> None:
        """A voter has everything below this offset on its disk. Nodes that are not voters do not count."""
        if voter in self._ends:
            self._ends[voter] = end_offset

    def fetched(self, voter: int, now_ms: float) -> None:
        """A voter has fetched."""
        if voter in self._fetched_at_ms:
            self._fetched_at_ms[voter] = now_ms

    def committed(self) -> int | None:
        """Return the offset below which a majority has everything; None until this covers a record of the leader's own epoch.

        Records of earlier epochs are committed together with the first record of the leader's own epoch. If a majority alone committed
        them, a later leader could still remove them."""
        ends = sorted(self._ends.values(), reverse=True)
        end_offset = ends[len(ends) // 2]
        return end_offset if end_offset > self._epoch_start else None

    def quorum_seen_at_ms(self, now_ms: float) -> float:
        """Return the last time at which the leader was in touch with a majority."""
        others = sorted(self._fetched_at_ms.values(), reverse=True)
        needed = len(self._ends) // 2 + 1 - (self._me in self._ends)
        return others[needed - 1] if needed else now_ms

    def successors(self) -> tuple[int, ...]:
        """Return the other voters, the one with the longest log first."""
        return tuple(sorted(self._fetched_at_ms, key=lambda voter: (-self._ends[voter], voter)))
