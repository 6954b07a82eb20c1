"""The sampled records of one consumer that wait for the commit of their offsets.

Owner: the consumer's offset tracker. A source adds records when it pushes them; the consumer's thread, or that of a transaction, says what is committed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.tracing.run_trace import SampledRecord

MOST: Final = 10_000
"""Records that wait at most; the oldest ones get no commit span."""


class Settles:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[Any, int, int], SampledRecord] = {}  # by partition, epoch and position

    def add(self, record: SampledRecord) -> None:
        """A record was pushed; its commit is to have a span."""
        with self._lock:
            self._waiting[(record.key[1], *record.place)] = record
            if len(self._waiting) > MOST:
                del self._waiting[next(iter(self._waiting))]

    def forget(self, record: SampledRecord) -> None:
        """A record has failed: it is not committed by this run."""
        with self._lock:
            self._waiting.pop((record.key[1], *record.place), None)

    def answered(self, offsets: Mapping[Any, int], began_ns: int, error: BaseException | None) -> None:
        """A commit of these positions (partition -> position) is over; with an error they are not committed."""
        if not self._waiting:
            return
        with self._lock:
            covered = [key for key in self._waiting if key[2] <= offsets.get(key[0], -1)]
            records = [self._waiting[key] if error is not None else self._waiting.pop(key) for key in covered]
        for record in records:
            record.committed(began_ns, error)
