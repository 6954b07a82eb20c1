"""How many rows the next batch should have, from how long the last ones took.

The time of a batch has a fixed part (planning, two logs, the user's own set-up) and a part per row. Fewer rows reduce only the second part,
so both are estimated by a line through the last batches; a batch that is slow at any size is not made smaller."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_ROWS: Final = 100_000
TARGET_BATCH_S: Final = 5.0
"""The default target of a sink."""

REMEMBERED: Final = 8
"""Number of batches in the estimate."""

SPREAD: Final = 1.2
"""Ratio of the largest to the smallest size from which on a line through the batches is more than noise."""


class BatchSize:
    """`rows` is the size to aim at: between 1 and `max_rows`, so that a batch takes about `target_ms`."""

    def __init__(self, max_rows: int, target_ms: float) -> None:
        self.rows = max_rows
        self._max_rows = max_rows
        self._target_ms = target_ms
        self._seen: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)
        self._warm = False

    def took(self, rows: int, ms: float) -> None:
        """Note the duration of a batch. The first batch is not counted, because it includes the start of Spark's workers."""
        if not self._warm:
            self._warm = True
            return
        if rows < 1:
            return
        self._seen.append((rows, ms))
        fixed, per_row = self._costs()
        if per_row <= 0:
            wanted = float(self._max_rows)
        else:
            # the fixed part takes at most half of the time
            wanted = max(self._target_ms - fixed, fixed) / per_row
        self.rows = max(1, min(self._max_rows, int(wanted)))

    def _costs(self) -> tuple[float, float]:
        """Return (fixed ms, ms per row)."""
        n = len(self._seen)
        sizes = [rows for rows, _ in self._seen]
        mean_rows = sum(sizes) / n
        mean_ms = sum(ms for _, ms in self._seen) / n
        if max(sizes) < SPREAD * min(sizes):
            return 0.0, mean_ms / mean_rows
        spread = sum((rows - mean_rows) ** 2 for rows in sizes)
        slope = sum((rows - mean_rows) * (ms - mean_ms) for rows, ms in self._seen) / spread
        slope = max(0.0, min(slope, mean_ms / mean_rows))
        return mean_ms - slope * mean_rows, slope
