"""A fetch that waits for enough records or for its timeout (Kafka's DelayedFetch).

Owner: the data plane. It completes when the records between its offsets and the bound of its reader (`ReadLimits.bound`) reach min.bytes,
or when a partition can only return an error. The bound is the high watermark for consumers, the last stable offset for those that read
committed records, and the log end for followers. The partitions are read after the fetch completes.

Woken by `HostedPartition`: an append (followers read beyond the high watermark), a move of the high watermark, a change of the leader, a
deletion; also by its own deadline, and by the end of its connection. The fetch of a session waits under the session, and looks only at the partitions that were touched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import BrokerError
from streamactors.broker.purgatory import DelayedOperation
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.reading import ReadLimits, Wanted, WantedTopic
from streamactors.broker.replication.sessions.fetch_session import FetchSession

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_ALL: Final = 2**31 - 1


class DelayedFetch(DelayedOperation):
    """Calls `done` once, when the partitions should be read."""

    __slots__ = ("_by_partition", "_done", "_limits", "_session")

    def __init__(
        self,
        topics: Sequence[WantedTopic],
        limits: ReadLimits,
        max_wait_ms: float,
        done: Callable[[], object],
        session: FetchSession | None = None,
    ) -> None:
        super().__init__(max_wait_ms)
        self._by_partition: dict[HostedPartition, Wanted] = {}
        if session is None:
            self._by_partition = {
                wanted.partition: wanted
                for topic in topics
                for wanted in topic.partitions
                if wanted.partition is not None
            }
        self._session = session
        self._limits = limits
        self._done = done

    def wait(self, node: Runtime) -> None:
        """Enter the purgatory, or complete at once."""
        keys = self._by_partition if self._session is None else (self._session,)
        node.fetch_purgatory.try_complete_else_watch(self, keys)

    def _pieces(self) -> Iterable[tuple[HostedPartition, Wanted]]:
        if self._session is None:
            return self._by_partition.items()
        touched = [cached.wanted for cached in self._session.changed.values()]
        return [(each.partition, each) for each in touched if each is not None and each.partition is not None]

    def try_complete(self) -> bool:
        available = 0
        for partition, wanted in self._pieces():
            size = self._available(partition, wanted)
            if size is None:
                return self.force_complete()
            available += size
            if available >= self._limits.min_bytes:
                return self.force_complete()
        return False

    def try_complete_for(self, key: Hashable) -> bool:
        if self._limits.min_bytes > 1 or self._session is not None:
            return self.try_complete()
        # One byte is enough, so only the changed partition matters, not a thousand others.
        assert isinstance(key, HostedPartition)
        size = self._available(key, self._by_partition[key])
        return self.force_complete() if size is None or size > 0 else False

    def on_complete(self) -> None:
        done = self._done
        del self._done  # it refers to this operation: only the garbage collector would free the two
        done()

    def _available(self, partition: HostedPartition, wanted: Wanted) -> int | None:
        """Return the bytes that a read would return now, None if it would return an error."""
        asked = wanted.asked
        if self._limits.error(wanted):
            return None
        if wanted.is_held:
            return 0
        bound = self._limits.bound(partition)
        if asked.offset >= bound:
            return None if asked.offset > partition.log_end_offset else 0
        if self._limits.min_bytes <= 1:
            return 1
        log = partition.log
        if asked.offset < log.active.base_offset:
            return self._limits.min_bytes  # A read ends with its segment, so waiting cannot add bytes.
        try:
            piece = log.read(asked.offset, _ALL, bound, True)
        except (BrokerError, OSError):
            return None
        piece.release()
        return min(piece.length, asked.max_bytes)
