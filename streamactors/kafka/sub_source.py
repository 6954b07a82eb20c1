"""SubSource: one sub-source of a partitioned source, as both sides hold it: the partitioned source that hands it out and ends it, and
the stage that runs somewhere, perhaps in a run of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from streamactors.engine.run import Run
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.partition_feed import PartitionFeed
from streamactors.kafka.subscriptions import TopicPartition


class Parent(Protocol):
    """The partitioned source, as its sub-sources see it. Any thread."""

    run: Run
    source: Any
    """The name of the partitioned source in marks, None where nobody reads any."""
    tracker: OffsetTracker | None
    group_metadata: Callable[[], Any]
    """The membership that a transaction commits under."""
    renew_membership: Callable[[], None]
    """Says that it is stale."""

    def ahead(self, record_bytes: int | None) -> int:
        """Records of this size (None: not known yet) that one sub-source may have asked for while it has demand."""

    def tell(self, message: Any) -> None:
        """Tell the consumer."""

    def wait_for(self, run: Run) -> None:
        """Keep the consumer until this run has ended, too."""

    def sub_ended(self, sub: SubSource) -> None:
        """A sub-source has stopped."""


class Reader(Protocol):
    """The running stage, as its partitioned source sees it. Any thread."""

    def switch(self, feed: PartitionFeed) -> None: ...
    def close(self, error: BaseException | None) -> None: ...
    def revoked(self, epoch: int) -> None: ...
    def idle(self, silent_ms: float) -> None: ...


class SubSource:
    """See the module. It can be run once."""

    def __init__(
        self, parent: Parent, feed: PartitionFeed, commits: Commits, convert: Callable[..., Any] | None
    ) -> None:
        self.parent = parent
        self.feed = feed
        self.commits = commits
        self.convert = convert
        self.finished = False
        """It has come to its own end: a bounded read, a revoked partition, a stopped source."""
        self.failure: BaseException | None = None
        """What its downstream failed with."""
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._closed: tuple[BaseException | None] | None = None
        self._taken = False

    @property
    def key(self) -> TopicPartition:
        return self.feed.key

    def take(self) -> bool:
        """True for the first who wants to run it."""
        with self._lock:
            taken, self._taken = self._taken, True
            return not taken

    def started(self, reader: Reader) -> tuple[BaseException | None] | None:
        """It runs; returns (None or an error) when it has been closed meanwhile."""
        with self._lock:
            self._reader = reader
            return self._closed

    def switch(self, feed: PartitionFeed) -> None:
        """The partition was taken away and given back at once: go on with the new assignment."""
        with self._lock:
            self.feed = feed
            reader = self._reader
        if reader is not None:
            reader.switch(feed)

    def close(self, error: BaseException | None = None) -> None:
        """End it, with an error or well."""
        with self._lock:
            self._closed = (error,)
            reader = self._reader
        if reader is not None:
            reader.close(error)

    @property
    def reader(self) -> Reader | None:
        """The running stage, None before it starts."""
        return self._reader
