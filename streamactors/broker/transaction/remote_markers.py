"""Delivers the markers of decided transactions to the leaders of their partitions, also on other brokers.

Owner: the transaction component, on the data plane's thread. A marker for a partition of this broker is written directly. Another
broker gets a WriteTxnMarkers request; its version is that of all brokers, because no broker asks for it. `Markers` repeats what fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.outgoing.channel import ChannelAnswer
from streamactors.broker.runtime import Runtime
from streamactors.broker.transaction.broker_channels import BrokerChannels
from streamactors.broker.transaction.markers import MarkerWriter
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

_log = logging.getLogger("streamactors.broker.transaction")

WRITE_TXN_MARKERS: Final = (27, 1)
NO_LEADER: Final = -1


class RemoteMarkers:
    """The way to the leaders on other brokers, a connection to each."""

    def __init__(self, node: Runtime, local: MarkerWriter) -> None:
        self._node = node
        self._local = local
        self._channels = BrokerChannels(node, "markers")

    def write(
        self, where: TopicPartition, send: SendMarkers, coordinator_epoch: int, then: Callable[[ErrorCode], object]
    ) -> None:
        """Have one marker written to one partition, then call `then` with the error."""
        leader = self._leader(where)
        if leader == self._node.node_id:
            self._local.write(where, send, coordinator_epoch, then)
            return
        channel = self._channels.to(leader)
        if channel is None:
            then(ErrorCode.LEADER_NOT_AVAILABLE)
            return
        marker = {
            "producer_id": send.producer_id,
            "producer_epoch": send.producer_epoch,
            "transaction_result": send.commit,
            "topics": [{"name": where.topic, "partition_indexes": [where.partition]}],
            "coordinator_epoch": coordinator_epoch,
        }

        def answered(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                _log.debug("a marker for %s-%d: %s", *where, answer.error)
                then(ErrorCode.NETWORK_EXCEPTION)
                return
            then(ErrorCode(answer.value.markers[0].topics[0].partitions[0].error_code))

        channel.request(*WRITE_TXN_MARKERS, {"markers": [marker]}, answered)

    def stop(self) -> None:
        """Close the connections."""
        self._channels.close()

    def _leader(self, where: TopicPartition) -> int:
        topic = self._node.metadata.image.topics.get(where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            return self._node.node_id  # the writer here says that it does not exist
        return topic.partitions[where.partition].leader
