"""The requests of share groups on connections of our own: heartbeats to the group's coordinator, fetches and acknowledgements to a broker.

Owner: `kafka/sources/share_group/share_member.py`; each of its threads has an object of its own, except for `abort`. Versions: ShareGroupHeartbeat 1,
ShareFetch and ShareAcknowledge 1 and 2 (2: exact numbers of records, renewal)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from streamactors.kafka.client.cluster_requests import GROUP, ClusterRequests
from streamactors.kafka.client.share.protocol import (
    AckRange,
    ErrorCode,
    Purpose,
    Shard,
    ShardAnswer,
    ShareAnswer,
    ShareRequest,
)
from streamactors.kafka.client.share.share_records import Range, count_acquired, read_acquired
from streamactors.kafka.errors import NoShareGroups, TopicNotFound
from streamactors.kafka.property_rules import Address

HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
ALTER_CONFIGS: Final = 44
_HEARTBEAT_VERSION: Final = 1
_SET: Final = 0
_GROUP: Final = 32
"""The type of config resource of a group's settings."""
_NEWEST: Final = 2
EXACT_RECORDS: Final = 1
"""The acquire mode in which a broker never locks more records than were asked for (KIP-1206)."""


class Layout(NamedTuple):
    """Where the partitions of the topics are."""

    ids: dict[UUID, str]
    leaders: dict[Shard, int]
    addresses: dict[int, Address]


def no_share_groups(servers: str) -> NoShareGroups:
    """Return the error of a cluster without share groups."""
    return NoShareGroups(
        f"{servers} has no share groups: they need Apache Kafka 4.2 or newer with the feature share.version=1; "
        "Consumer.source reads the topics with a consumer group"
    )


class ShareCoordinator(ClusterRequests):
    """Asks any broker for metadata, and the coordinator of one group for the membership."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any], group: str) -> None:
        super().__init__(bootstrap_servers, properties)
        self._group = group
        self._address: Address | None = None  # of the coordinator

    def share_version(self) -> int:
        """Return the version of ShareFetch and ShareAcknowledge to use. Raises NoShareGroups."""
        served = self.versions()
        versions = [served.get(key, 0) for key in (FETCH, ACKNOWLEDGE)]
        if served.get(HEARTBEAT, 0) < _HEARTBEAT_VERSION or min(versions) < 1:
            raise no_share_groups(self._bootstrap)
        return min(*versions, _NEWEST)

    def layout(self, topics: Sequence[str]) -> Layout:
        """Return the ids, leaders and addresses. Raises TopicNotFound for a topic that is not there or must not be read."""
        answer = self.topics_by_id(topics)
        ids: dict[UUID, str] = {}
        leaders: dict[Shard, int] = {}
        for topic in answer.topics:
            if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                denied = topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                why = "the user may not read it (Describe and Read are needed)" if denied else "it does not exist"
                raise TopicNotFound(f"no topic {topic.name} at {self._bootstrap}: {why}")
            if topic.topic_id is None:
                continue
            ids[topic.topic_id] = topic.name
            for each in topic.partitions:
                if each.leader_id >= 0:
                    leaders[Shard(topic.topic_id, each.partition_index)] = each.leader_id
        return Layout(ids, leaders, {each.node_id: Address(each.host, each.port) for each in answer.brokers})

    def set_reset(self, reset: str) -> tuple[int, str]:
        """Set where the group begins; return the error, 0 for none, and the broker's sentence."""
        config = {"name": "share.auto.offset.reset", "config_operation": _SET, "value": reset}
        resource = {"resource_type": _GROUP, "resource_name": self._group, "configs": [config]}
        answer = self._anybody(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
        (said,) = answer.responses
        return said.error_code, said.error_message or ""

    def heartbeat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None) -> Any:
        """Send a heartbeat to the coordinator, which is looked up first if it is not known; return the decoded answer."""
        if self._address is None:
            host, port, _ = self.coordinator(GROUP, self._group)
            self._address = Address(host, port)
        body = {
            "group_id": self._group,
            "member_id": member_id,
            "member_epoch": epoch,
            "rack_id": None,
            "subscribed_topic_names": topics,
        }
        try:
            return self._call(self._address, HEARTBEAT, _HEARTBEAT_VERSION, body)
        except BaseException:
            self._address = None
            raise

    def moved(self) -> None:
        """Look the coordinator up before the next heartbeat."""
        self._address = None


class ShareBroker(ClusterRequests):
    """Asks one broker for records and acknowledges them, in one share session after the other."""

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        group: str,
        version: int,
        max_bytes: int,
        topic_of: Callable[[UUID], str],
    ) -> None:
        super().__init__(bootstrap_servers, properties)
        self._group = group
        self._version = version
        self._max_bytes = max_bytes
        self._topic_of = topic_of

    def ask(self, address: Address, request: ShareRequest) -> ShareAnswer:
        """Send a request and return its answer. Raises NoBroker if the connection fails, TooManyAcquired."""
        if request.purpose is Purpose.FETCH:
            return self._fetched(self._call(address, FETCH, self._version, self._fetch(request)))
        answer = self._call(address, ACKNOWLEDGE, self._version, self._head(request, self._topics(request.acks)))
        shards = [
            ShardAnswer(Shard(topic.topic_id, each.partition_index), ack_error=each.error_code)
            for topic in answer.responses
            for each in topic.partitions
        ]
        lock_ms = answer.acquisition_lock_timeout_ms if self._version >= _NEWEST else 0
        return ShareAnswer(answer.error_code, answer.error_message or "", lock_ms, shards)

    def _head(self, request: ShareRequest, topics: list[dict[str, Any]]) -> dict[str, Any]:
        body = {
            "group_id": self._group,
            "member_id": request.member_id,
            "share_session_epoch": request.epoch,
            "topics": topics,
        }
        return {**body, "is_renew_ack": request.renews} if self._version >= _NEWEST else body

    def _fetch(self, request: ShareRequest) -> dict[str, Any]:
        shards = {shard: request.acks.get(shard, []) for shard in (*request.added, *request.acks)}
        body = {
            **self._head(request, self._topics(shards)),
            "max_wait_ms": request.max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "max_records": request.max_records,
            "batch_size": request.max_records,
            "forgotten_topics_data": [
                {"topic_id": each.topic_id, "partitions": [each.partition]} for each in request.forgotten
            ],
        }
        return {**body, "share_acquire_mode": EXACT_RECORDS} if self._version >= _NEWEST else body

    @staticmethod
    def _topics(shards: Mapping[Shard, Sequence[AckRange]]) -> list[dict[str, Any]]:
        topics: dict[UUID, list[dict[str, Any]]] = {}
        for shard, ranges in shards.items():
            batches = [
                {"first_offset": first, "last_offset": last, "acknowledge_types": [int(ack)]}
                for first, last, ack in ranges
            ]
            topics.setdefault(shard.topic_id, []).append(
                {"partition_index": shard.partition, "acknowledgement_batches": batches}
            )
        return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]

    def _fetched(self, answer: Any) -> ShareAnswer:
        count_acquired(answer.responses)
        shards = []
        for topic in answer.responses:
            for each in topic.partitions:
                ranges = [Range(of.first_offset, of.last_offset, of.delivery_count) for of in each.acquired_records]
                where = f"{self._topic_of(topic.topic_id)}-{each.partition_index}"
                acquired, problem = read_acquired(where, each.records, ranges)
                shard = Shard(topic.topic_id, each.partition_index)
                shards.append(ShardAnswer(shard, each.error_code, each.acknowledge_error_code, acquired, problem))
        return ShareAnswer(answer.error_code, answer.error_message or "", answer.acquisition_lock_timeout_ms, shards)
