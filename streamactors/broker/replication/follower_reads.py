"""The fetches of followers, from the side of the leader: the offset that a follower asks for says what it has.

Owner: the data plane. Rules: Apache Kafka's Partition.fetchRecords (KIP-903 for the broker epoch)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.replication.reading import WantedTopic, divergence

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime


def is_stale(node: Runtime, replica: int, broker_epoch: int) -> bool:
    """Whether a fetch is from an earlier registration of a broker."""
    registered = node.metadata.image.brokers.get(replica)
    return registered is not None and 0 <= broker_epoch < registered.broker_epoch


def note_follower(node: Runtime, topics: Iterable[WantedTopic], replica: int, broker_epoch: int) -> None:
    """Note how far a follower is in each partition that it asks for. A partition whose answer will be an error or a divergence is
    left out: its offset has no meaning here.

    A fetch of an earlier registration gets NOT_LEADER_OR_FOLLOWER: it would bring back into the ISR what the broker has lost."""
    stale = is_stale(node, replica, broker_epoch)
    for topic in topics:
        for wanted in topic.partitions:
            partition, asked = wanted.partition, wanted.asked
            if partition is None or wanted.error:
                continue
            if partition.epoch_error(asked.current_leader_epoch):
                continue  # the answer will say so
            if stale:
                wanted.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            if asked.last_fetched_epoch >= 0 and divergence(asked, partition) is not None:
                continue
            if not partition.log_start_offset <= asked.offset <= partition.log_end_offset:
                continue
            try:
                partition.followed(replica, broker_epoch, asked.offset)
            except BrokerError as error:
                wanted.error = error.code
