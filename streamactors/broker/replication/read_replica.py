"""Which replica a consumer is sent to: one in its own rack, if there is one that has what it asks for (KIP-392). Pure.

Owner: the reads of a leader, where replica.selector.class is the RackAwareReplicaSelector. The rules are Apache Kafka's: only members of the ISR count,
the leader is preferred in its own rack, and otherwise the replica that has most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamactors.broker.metadata.metadata_record import BrokerRegistration
from streamactors.broker.replication.leader_state import LeaderState

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
STAY: Final = -1


def preferred_replica(leading: LeaderState, brokers: Mapping[int, BrokerRegistration], rack: str, offset: int) -> int:
    """Return the follower from which a consumer in a rack should read at an offset; STAY if it should stay at the leader."""
    own = brokers.get(leading.me)
    if own is not None and own.rack == rack:
        return STAY
    found, most = STAY, -1
    for replica in leading.isr:
        remote, broker = leading.remotes.get(replica), brokers.get(replica)
        if remote is None or broker is None or broker.fenced or broker.rack != rack:
            continue
        if offset <= remote.end_offset and remote.end_offset > most:
            found, most = replica, remote.end_offset
    return found
