"""Which records without a context begin a trace: a share of them, chosen by the length of the gaps between them.

So a chunk of records that holds none costs one comparison, not one per record."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable


class Gaps:
    """Chooses each record with probability `ratio`, independently. Thread-safe."""

    def __init__(self, ratio: float, draw: Callable[[], float] = random.random) -> None:
        self.ratio = ratio
        self._draw = draw
        self._log_rest = math.log1p(-ratio) if 0 < ratio < 1 else 0.0
        self._lock = threading.Lock()
        self._gap = self._next() if ratio else 0  # records before the next one that is chosen

    def _next(self) -> int:
        if self.ratio >= 1:
            return 0
        return int(math.log(1.0 - self._draw()) / self._log_rest)

    def chosen(self, n: int) -> list[int]:
        """Return the numbers of the chosen ones of the next n records, in order."""
        if not self.ratio:
            return []
        with self._lock:
            if self._gap >= n:
                self._gap -= n
                return []
            found = []
            at = self._gap
            while at < n:
                found.append(at)
                at += 1 + self._next()
            self._gap = at - n
            return found
