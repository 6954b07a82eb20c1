"""Writes the markers of a decided transaction to all its partitions, and retries until every partition has its marker.

Owner: the transaction component, on the data plane's thread. The group coordinator writes the marker of a partition of the
offsets topic, because it holds the transaction's offsets; all other markers go to the log directly. A deleted partition needs
no marker. If a marker is refused for an old epoch, a newer coordinator or producer epoch delivers its own marker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import WriteMarker
from streamactors.broker.group.groups import Groups
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.records.control import build_marker
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers
from streamactors.clock import Clock
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.transaction")

_RETRY_MS: Final = 100
_SUCCEEDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Writes(Protocol):
    """Writes a marker where its partition is led: `MarkerWriter` here, `RemoteMarkers` on any broker."""

    def write(
        self, where: TopicPartition, send: SendMarkers, coordinator_epoch: int, then: Callable[[ErrorCode], object]
    ) -> None: ...


class MarkerWriter:
    """Writes single markers to partitions that this broker leads."""

    def __init__(
        self,
        clock: Clock,
        partitions: PartitionTable,
        groups: Groups,
        about_to: Callable[[TopicPartition, SendMarkers], object] = lambda where, send: None,
    ) -> None:
        """`about_to` is called with the partition of each marker before it is written."""
        self._clock = clock
        self._about_to = about_to
        self._partitions = partitions
        self._groups = groups

    def write(
        self, where: TopicPartition, send: SendMarkers, coordinator_epoch: int, then: Callable[[ErrorCode], object]
    ) -> None:
        """Write one marker to one partition, then call `then` with the error."""
        self._about_to(where, send)

        def is_stale() -> bool:
            partition = self._partitions.get(*where)
            if partition is None or send.transaction_version < BUMPS_EPOCH:
                return False
            return partition.log.marker_is_stale(send.producer_id, send.producer_epoch)

        if where.topic == OFFSETS_TOPIC:

            def answered(error: ErrorCode) -> None:
                # The sender of a marker knows partitions and leaders, but no coordinators.
                then(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _COORDINATOR_ERRORS else error)

            end = WriteMarker(answered, send.producer_id, send.producer_epoch, coordinator_epoch, send.commit, is_stale)
            self._groups.end_transaction(where.partition, end)
            return
        if is_stale():
            then(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        marker = build_marker(
            send.producer_id,
            send.producer_epoch,
            committed=send.commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        self._partitions.append(where.topic, where.partition, marker, lambda outcome: then(outcome.error))


class Markers:
    """The markers that one coordinator still has to deliver."""

    def __init__(
        self, node: Runtime, writer: Writes, coordinator_epoch: int, done: Callable[[str, SendMarkers], object]
    ) -> None:
        self._node = node
        self._writer = writer
        self._coordinator_epoch = coordinator_epoch
        self._done = done
        self._owed: dict[tuple[str, int, int], set[TopicPartition]] = {}
        self._stopped = False

    def send(self, transactional_id: str, send: SendMarkers) -> None:
        """Deliver the markers to every partition, then call `done`."""
        key = (transactional_id, send.producer_id, send.producer_epoch)
        self._owed[key] = set(send.partitions)
        if not send.partitions:
            self._settled(key, send)
        for where in sorted(send.partitions):
            self._deliver(key, send, where)

    def stop(self) -> None:
        """Stop the delivery: another coordinator delivers the remaining markers."""
        self._stopped = True
        self._owed.clear()

    def _deliver(self, key: tuple[str, int, int], send: SendMarkers, where: TopicPartition) -> None:
        if self._stopped or where not in self._owed.get(key, ()):
            return
        if not self._exists(where):
            self._arrived(key, send, where)
            return

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._arrived(key, send, where)
            elif error in _SUCCEEDED:
                log_limited(
                    _log, logging.WARNING, (key[0], error),
                    "%s: the marker for %s-%d is refused: %s; a newer coordinator or producer epoch writes its own",
                    key[0], *where, error.name,
                )  # fmt: skip
                self._owed.pop(key, None)
            else:
                _log.info("%s: the marker for %s-%d is sent again: %s", key[0], *where, error.name)
                self._node.data_plane.call_later(_RETRY_MS, lambda: self._deliver(key, send, where))

        self._writer.write(where, send, self._coordinator_epoch, then)

    def _exists(self, where: TopicPartition) -> bool:
        topic = self._node.metadata.image.topics.get(where.topic)
        return topic is not None and where.partition < len(topic.partitions)

    def _arrived(self, key: tuple[str, int, int], send: SendMarkers, where: TopicPartition) -> None:
        owed = self._owed.get(key)
        if owed is not None:
            owed.discard(where)
            self._settled(key, send)

    def _settled(self, key: tuple[str, int, int], send: SendMarkers) -> None:
        if not self._owed.get(key, True):
            del self._owed[key]
            self._done(key[0], send)
