"""Starvation: does a pool need another thread? Decided from one look every few ms. Pure: no clock, no thread.

Owner: the pool's watch. While cells wait and no turn begins, all threads are inside turns, which either

- block: they use no processor time. Between two looks, a thread that the operating system has suspended, or that waits
  for the interpreter lock, uses none either. So turns count as blocked after the third look, or after the second if
  others have blocked lately; or
- compute: then a second thread would only contend for the interpreter lock. It is started only when a turn has computed
  for `COMPUTING_S`.
"""

from __future__ import annotations

from typing import Final

COMPUTING_S: Final = 0.01
"""How long a turn that computes may keep other cells waiting."""
_BLOCKED_BELOW: Final = 0.1
"""Threads that use less than this share of the time, all together, do not compute."""
_DOUBLINGS: Final = 6


class Starvation:
    """The results of the previous looks."""

    __slots__ = ("_cpu_s", "_looked_at_s", "_silent", "_since_s", "_starved", "_turns")

    def __init__(self) -> None:
        self._turns = -1
        self._since_s = 0.0
        self._looked_at_s = 0.0
        self._cpu_s = 0.0
        self._silent = 0  # looks in a row between which no processor time was used
        self._starved = 0

    def nobody_waits(self) -> None:
        """Forget the previous looks."""
        self._turns = -1

    def look(self, turns: int, cpu_s: float, now_s: float, *, blocked_lately: bool) -> int:
        """Return how many threads to add; called while cells wait. `turns`: number of turns begun; `cpu_s`: the processor time that
        the threads inside turns have used so far."""
        elapsed_s, used_s = now_s - self._looked_at_s, cpu_s - self._cpu_s
        self._looked_at_s, self._cpu_s = now_s, cpu_s
        if turns != self._turns:
            self._turns, self._since_s, self._silent, self._starved = turns, now_s, 0, 0
            return 0
        self._silent = self._silent + 1 if used_s < elapsed_s * _BLOCKED_BELOW else 0
        blocked = self._silent >= (1 if blocked_lately else 2)
        if not blocked and now_s - self._since_s < COMPUTING_S:
            return 0
        self._starved += 1
        return 1 << min(self._starved - 1, _DOUBLINGS)
