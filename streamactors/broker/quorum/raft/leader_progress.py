"""What the leader of the metadata log knows about the voters: where their logs end on disk, and when they fetched last. Pure.

Owner: `RaftState` while it leads. Source: KIP-595; KIP-835 for the check of the quorum."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

MOST_REPLICAS: Final = 1_000
"""Of more nodes without a vote the leader does not know whether they have caught up."""


class LeaderProgress:
    """The progress of the voters in one epoch, which begins at the leader's log end at its election."""

    def __init__(self, me: int, voters: Set[int], epoch_start: int, now_ms: float) -> None:
        self._me = me
        self._voters = voters
        self._began_at_ms = now_ms
        self.epoch_start = epoch_start
        self._ends: dict[int, int] = {}
        self._fetched_at_ms: dict[int, float] = {}
        self._log_ends: dict[int, int] = {}  # at the last fetch of each replica
        self._caught_up: set[int] = set()

    def use(self, voters: Set[int]) -> Set[int]:
        """Count these voters from now on: the log names them. Return those that are new."""
        for gone in self._voters - voters:  # if it comes back, it may have lost its disk
            for known in (self._ends, self._fetched_at_ms, self._log_ends):
                known.pop(gone, None)
            self._caught_up.discard(gone)
        new, self._voters = voters - self._voters, voters
        return new

    def stored(self, replica: int, end_offset: int) -> None:
        """A replica has everything below this offset on its disk. Nodes that are not voters do not count."""
        if self._is_kept(replica):
            self._ends[replica] = end_offset

    def fetched(self, replica: int, now_ms: float) -> None:
        """A replica has fetched."""
        if self._is_kept(replica):
            self._fetched_at_ms[replica] = now_ms

    def reached(self, replica: int, end_offset: int) -> None:
        """The leader's log ends here while a replica fetches. It has caught up when it has what the log had at its fetch before."""
        if self._ends.get(replica, -1) >= self._log_ends.get(replica, end_offset):
            self._caught_up.add(replica)
        if self._is_kept(replica):
            self._log_ends[replica] = end_offset

    def has_caught_up(self, replica: int) -> bool:
        """Whether a replica had as good as the whole log at one time of this epoch."""
        return replica in self._caught_up

    def _is_kept(self, replica: int) -> bool:
        return replica in self._voters or replica in self._ends or len(self._ends) < MOST_REPLICAS

    def committed(self) -> int | None:
        """Return the offset below which a majority has everything; None until this covers a record of the leader's own epoch.

        Records of earlier epochs are committed together with the first record of the leader's own epoch. If a majority alone committed
        them, a later leader could still remove them."""
        ends = sorted((self._ends.get(voter, -1) for voter in self._voters), reverse=True)
        end_offset = ends[len(ends) // 2]
        return end_offset if end_offset > self.epoch_start else None

    def quorum_seen_at_ms(self, now_ms: float) -> float:
        """Return the last time at which the leader was in touch with a majority."""
        times = (self._fetched_at_ms.get(voter, self._began_at_ms) for voter in self._voters if voter != self._me)
        others = sorted(times, reverse=True)
        needed = len(self._voters) // 2 + 1 - (self._me in self._voters)
        return others[needed - 1] if needed else now_ms

    def successors(self) -> tuple[int, ...]:
        """Return the other voters, the one with the longest log first."""
        others = self._voters - {self._me}
        return tuple(sorted(others, key=lambda voter: (-self._ends.get(voter, -1), voter)))
