"""The Fetch request of a follower: its version and its body. Pure.

Owner: `replica_fetcher`. No node asks for the versions of another one: the metadata version of the cluster names the version. Source: Apache Kafka's
MetadataVersion and FetchRequest.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.replication.follower_state import AskedFetch
from streamactors.broker.replication.sessions.follower_session import SessionRequest

FETCH_KEY: Final = 1
SINCE_REPLICA_STATE: Final = 15
SINCE_HIGH_WATERMARK: Final = 18
NO_HIGH_WATERMARK: Final = 2**63 - 1  # followers of partitions do not wait for it

PartitionKey = tuple[Any, int]
"""A topic id and the index of a partition."""


class FetchPosition(NamedTuple):
    """A partition as the last request to the leader named it."""

    fetch: AskedFetch
    last_epoch: int
    log_start_offset: int


def fetch_version(metadata_version: int) -> int:
    """Return the version of Fetch that a cluster of this metadata version uses between brokers."""
    for since, version in ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14)):
        if metadata_version >= since:
            return version
    return 13


def fetch_body(
    asked: SessionRequest[PartitionKey, FetchPosition],
    version: int,
    config: BrokerConfig,
    node_id: int,
    broker_epoch: int,
) -> Mapping[str, Any]:
    """Return the body of a request in this version. It has no other field: the encoder loads every version to look for one that it does not know."""
    newest = {"high_watermark": NO_HIGH_WATERMARK} if version >= SINCE_HIGH_WATERMARK else {}
    topics: dict[Any, list[dict[str, Any]]] = {}
    for (topic_id, index), each in asked.named.items():
        topics.setdefault(topic_id, []).append(
            {
                "partition": index,
                "current_leader_epoch": each.fetch.leader_epoch,
                "fetch_offset": each.fetch.offset,
                "last_fetched_epoch": each.last_epoch,
                "log_start_offset": each.log_start_offset,
                "partition_max_bytes": config.replica_fetch_max_bytes,
                **newest,
            }
        )
    forgotten: dict[Any, list[int]] = {}
    for topic_id, index in asked.forgotten:
        forgotten.setdefault(topic_id, []).append(index)
    return {
        **(
            {"replica_state": {"replica_id": node_id, "replica_epoch": broker_epoch}}
            if version >= SINCE_REPLICA_STATE
            else {"replica_id": node_id}
        ),
        "max_wait_ms": config.replica_fetch_wait_max_ms,
        "min_bytes": config.replica_fetch_min_bytes,
        "max_bytes": config.replica_fetch_response_max_bytes,
        "session_id": asked.session_id,
        "session_epoch": asked.epoch,
        "topics": [{"topic_id": topic_id, "partitions": each} for topic_id, each in topics.items()],
        "forgotten_topics_data": [{"topic_id": topic_id, "partitions": each} for topic_id, each in forgotten.items()],
    }
