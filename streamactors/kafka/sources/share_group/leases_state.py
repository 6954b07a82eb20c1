"""Leases: the locked records of a share consumer that are not done, in the order in which they are emitted.

The index of a lease is its position in the marks of the source: a mark at 7 says that the leases 0 to 6 are done.
Owner: `queue_state.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from streamactors.kafka.client.share.protocol import Ack, Shard


class Lease:
    """One locked record. `verdict`: how it is acknowledged when its mark is done; the user's functions may change it."""

    __slots__ = ("broker", "delivery_count", "emitted", "index", "lock_until_ms", "offset", "shard", "verdict")

    def __init__(self, broker: int, shard: Shard, offset: int, delivery_count: int, lock_until_ms: float) -> None:
        self.index = -1
        self.broker = broker
        self.shard = shard
        self.offset = offset
        self.delivery_count = delivery_count
        self.lock_until_ms = lock_until_ms
        self.emitted = False
        self.verdict = Ack.ACCEPT


class Leases:
    """The leases that are not done, by index, and when each is to be renewed."""

    def __init__(self) -> None:
        self.next_index = 0
        """The index of the next record; so many were taken in so far."""
        self._open: dict[int, Lease] = {}
        self._first = 0  # no open lease has a smaller index
        self._emitted = 0  # the leases before this index are emitted
        self._renewals: deque[tuple[float, Lease]] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._open.values())

    def add(self, lease: Lease, renew_at_ms: float) -> None:
        """Take a record in; it gets the next index."""
        lease.index = self.next_index
        self.next_index += 1
        self._open[lease.index] = lease
        self._renewals.append((renew_at_ms, lease))

    def emitted(self, end: int) -> None:
        """The records before index `end` were emitted."""
        for index in range(self._emitted, end):
            lease = self._open.get(index)
            if lease is not None:
                lease.emitted = True
        self._emitted = max(self._emitted, end)

    def done(self, end: int) -> list[Lease]:
        """The records before index `end` are done at every sink: remove and return their leases."""
        found = [lease for i in range(self._first, end) if (lease := self._open.pop(i, None)) is not None]
        self._first = max(self._first, end)
        return found

    def take(self, which: Callable[[Lease], bool]) -> list[Lease]:
        """Remove and return the leases for which `which` is true."""
        found = [lease for lease in self._open.values() if which(lease)]
        for lease in found:
            del self._open[lease.index]
        return found

    def due(self, now_ms: float) -> list[Lease]:
        """Return the open leases that are to be renewed now; each is returned once, until `renewed` or `look_again`."""
        found = []
        while self._renewals and self._renewals[0][0] <= now_ms:
            _, lease = self._renewals.popleft()
            if self._open.get(lease.index) is lease:
                found.append(lease)
        return found

    @property
    def next_due_ms(self) -> float | None:
        """When the next lease is to be renewed; None: there is none."""
        while self._renewals and self._open.get(self._renewals[0][1].index) is not self._renewals[0][1]:
            self._renewals.popleft()
        return self._renewals[0][0] if self._renewals else None

    def look_again(self, lease: Lease, at_ms: float) -> None:
        """Have an open lease returned by `due` once more."""
        if self._open.get(lease.index) is lease:
            self._renewals.append((at_ms, lease))
