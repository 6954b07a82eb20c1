"""Delivers the markers of decided transactions to the leaders of their partitions, also on other brokers.

Owner: the transaction component, on the data plane's thread. A marker for a partition of this broker is written directly. Another
broker gets a WriteTxnMarkers request; no broker asks for the versions of another one. Version 2 has the transaction's version; only
brokers whose registration shows that they know it get it. `Markers` repeats what fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streamactors.broker.coordinator.broker_channels import BrokerChannels
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import METADATA_VERSION
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.runtime import Runtime
from streamactors.broker.transaction.markers import MarkerWriter
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

_log = logging.getLogger("streamactors.broker.transaction")

WRITE_TXN_MARKERS: Final = 27
FIRST_WITH_VERSION: Final = 2
FIRST_THAT_KNOWS: Final = 28
"""The metadata.version, 4.2-IV0, of the first brokers that know this version of the request."""
NO_LEADER: Final = -1


class RemoteMarkers:
    """Delivers markers to the leaders on other brokers, over one connection to each."""

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
        version = self._version(leader, send)
        marker = {
            "producer_id": send.producer_id,
            "producer_epoch": send.producer_epoch,
            "transaction_result": send.commit,
            "topics": [{"name": where.topic, "partition_indexes": [where.partition]}],
            "coordinator_epoch": coordinator_epoch,
        }
        if version == FIRST_WITH_VERSION:
            marker["transaction_version"] = send.transaction_version

        def answered(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                _log.debug("a marker for %s-%d: %s", *where, answer.error)
                then(ErrorCode.NETWORK_EXCEPTION)
                return
            then(ErrorCode(answer.value.markers[0].topics[0].partitions[0].error_code))

        channel.request(WRITE_TXN_MARKERS, version, {"markers": [marker]}, answered)

    def stop(self) -> None:
        """Close the connections."""
        self._channels.close()

    def _version(self, leader: int, send: SendMarkers) -> int:
        """Return the version of the request: 1 for a broker that does not know the other one, as Apache Kafka before 4.2."""
        broker = self._node.metadata.image.brokers.get(leader)
        features = () if broker is None else broker.features
        newest = max((each.max_level for each in features if each.name == METADATA_VERSION), default=0)
        knows = newest >= FIRST_THAT_KNOWS and send.transaction_version >= BUMPS_EPOCH
        return FIRST_WITH_VERSION if knows else FIRST_WITH_VERSION - 1

    def _leader(self, where: TopicPartition) -> int:
        topic = self._node.metadata.image.topics.get(where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            return self._node.node_id  # the writer here says that it does not exist
        return topic.partitions[where.partition].leader
