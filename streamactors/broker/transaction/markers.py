"""Delivers the markers of a decided transaction to every partition that takes part, for as long as it takes.

Owner: the transaction component, on the data plane's thread. A partition of the offsets topic gets its marker
through the group coordinator, which holds the offsets that wait for it; any other through the log. A partition
that was deleted needs none. A marker that is refused as too old belongs to a coordinator or an epoch that has been
succeeded: the successor delivers its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamactors.broker.controller.topic_name import OFFSETS_TOPIC
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import EndTransaction
from streamactors.broker.records.control import build_marker
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

if TYPE_CHECKING:
    from streamactors.broker.node import Node

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


def write_marker(
    node: Node, where: TopicPartition, send: SendMarkers, coordinator_epoch: int, then: Callable[[ErrorCode], object]
) -> None:
    """Write one marker into one partition that is led here."""
    if where.topic == OFFSETS_TOPIC:

        def answered(error: ErrorCode) -> None:
            # Whoever sends markers knows partitions and their leaders, not what is behind this one.
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _COORDINATOR_ERRORS else error)

        end = EndTransaction(answered, send.producer_id, send.producer_epoch, coordinator_epoch, send.commit)
        node.groups.end_transaction(where.partition, end)
        return
    marker = build_marker(
        send.producer_id,
        send.producer_epoch,
        committed=send.commit,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=node.clock.wall_ms(),
    )
    node.partitions.append(where.topic, where.partition, marker, lambda outcome: then(outcome.error))


class Markers:
    """The markers of one coordinator."""

    def __init__(self, node: Node, coordinator_epoch: int, done: Callable[[str, SendMarkers], object]) -> None:
        self._node = node
        self._coordinator_epoch = coordinator_epoch
        self._done = done
        self._owed: dict[tuple[str, int, int], set[TopicPartition]] = {}
        self._stopped = False

    def send(self, transactional_id: str, send: SendMarkers) -> None:
        """Deliver to every partition, then call `done`."""
        key = (transactional_id, send.producer_id, send.producer_epoch)
        self._owed[key] = set(send.partitions)
        if not send.partitions:
            self._settled(key, send)
        for where in sorted(send.partitions):
            self._deliver(key, send, where)

    def stop(self) -> None:
        """Deliver nothing more: another coordinator does."""
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
                _log.warning("%s: the marker for %s-%d is refused: %s", key[0], *where, error.name)
                self._owed.pop(key, None)
            else:
                _log.info("%s: the marker for %s-%d is sent again: %s", key[0], *where, error.name)
                self._node.data_plane.call_later(_RETRY_MS, lambda: self._deliver(key, send, where))

        write_marker(self._node, where, send, self._coordinator_epoch, then)

    def _exists(self, where: TopicPartition) -> bool:
        topic = self._node.controller.image.topics.get(where.topic)
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
