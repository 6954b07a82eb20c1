"""What any client may ask a cluster, and librdkafka does not ask: kinds of groups, transactions, quotas, data folders, the active controller.

Owner: the thread of the cluster's reader. Works with any Kafka: a request that the cluster does not serve, or for which the client has no right, leaves its
part out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from streamactors.dashboard.model_cluster import DiskState, QuotaState, TransactionState
from streamactors.dashboard.reading.graphs import short
from streamactors.kafka.client.cluster_requests import TRANSACTION, ClusterRequests, Refused
from streamactors.kafka.errors import KafkaError, NoBroker

MOST_TRANSACTIONS: Final = 100
MOST_DESCRIBED: Final = 20
"""The begin of so many open transactions is asked for."""
MOST_QUOTAS: Final = 200
_LIST_GROUPS, _VERSIONS, _LOG_DIRS, _QUOTAS, _QUORUM = 16, 18, 35, 48, 55
_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS = 65, 66
_TYPES_SINCE: Final = 5
_SPACE_SINCE: Final = 4
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers. `kinds`: the kind of each group, with its state and whether its offsets are those of a simple consumer."""

    addresses: Mapping[int, str] = field(default_factory=dict)
    controller: int | None = None
    cluster: str | None = None
    kinds: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    transactions: tuple[TransactionState, ...] = ()
    quotas: tuple[QuotaState, ...] = ()
    disks: Mapping[int, tuple[DiskState, ...]] = field(default_factory=dict)
    topic_bytes: Mapping[str, int] = field(default_factory=dict)


class ClusterQuestions:
    """Asks a cluster. `properties` are librdkafka's, with `bootstrap.servers`."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._wire = ClusterRequests(properties["bootstrap.servers"], properties)
        self._served: dict[int, int] = {}

    def ask(self) -> Asked:
        """Return what the cluster answers now. Raises NoBroker."""
        metadata = self._wire.metadata([])
        brokers = self._wire.brokers()
        first = brokers[0]
        if not self._served:
            answer = self._wire.call(first, _VERSIONS, 0, {})
            self._served = {each.api_key: each.max_version for each in answer.api_keys}
        folders = self._part(lambda: self._folders(brokers), ({}, {}))
        return Asked(
            {each.node_id: f"{each.host}:{each.port}" for each in metadata.brokers},
            self._part(lambda: self._controller(first), None),
            metadata.cluster_id,
            self._part(lambda: self._kinds(brokers), {}),
            self._part(lambda: self._transactions(brokers), ()),
            self._part(lambda: self._quotas(first), ()),
            *folders,
        )

    def close(self) -> None:
        """Disconnect."""
        self._wire.__exit__(None, None, None)

    def _part(self, ask: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return ask()
        except NoBroker:
            raise
        except KafkaError:  # no right to see it
            return otherwise

    def _version(self, key: int, most: int) -> int:
        """Return the version to use. Raises KafkaError if the cluster does not serve the request."""
        served = self._served.get(key)
        if served is None:
            raise KafkaError(f"the cluster does not serve the API with key {key}")
        return min(served, most)

    def _controller(self, broker: int) -> int | None:
        version = self._version(_QUORUM, 0)
        asked = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        answer = self._wire.call(broker, _QUORUM, version, asked)
        for topic in answer.topics:
            for partition in topic.partitions:
                if not partition.error_code and partition.leader_id >= 0:
                    return int(partition.leader_id)
        return None

    def _kinds(self, brokers: list[int]) -> dict[str, tuple[str, str]]:
        version = self._version(_LIST_GROUPS, _TYPES_SINCE)
        body: dict[str, Any] = {"states_filter": [], "types_filter": []}
        found = {}
        for broker in brokers:
            for group in self._wire.call(broker, _LIST_GROUPS, version, body).groups:
                kind = group.group_type if version >= _TYPES_SINCE else ""
                state = group.group_state if version >= _TYPES_SINCE - 1 else ""
                if not group.protocol_type and kind in ("", "classic", "Classic"):
                    kind = "simple"
                found[group.group_id] = (kind.lower(), state)
        return found

    def _transactions(self, brokers: list[int]) -> tuple[TransactionState, ...]:
        self._version(_LIST_TRANSACTIONS, 0)
        listed = [
            each
            for broker in brokers
            for each in self._wire.call(broker, _LIST_TRANSACTIONS, 0, {"state_filters": []}).transaction_states
        ]
        listed.sort(key=lambda each: (each.transaction_state not in _OPEN, each.transactional_id))
        now_ms = time.time() * 1000
        found = []
        for n, each in enumerate(listed[:MOST_TRANSACTIONS]):
            began_ms = -1
            if n < MOST_DESCRIBED and each.transaction_state in _OPEN:
                began_ms = self._part(partial(self._began, each.transactional_id), -1)
            age = int(max(0, now_ms - began_ms)) if began_ms > 0 else None
            found.append(TransactionState(short(each.transactional_id), each.transaction_state, age, each.producer_id))
        return tuple(found)

    def _began(self, transactional_id: str) -> int:
        body = {"transactional_ids": [transactional_id]}
        answer = self._wire.call_coordinator(TRANSACTION, transactional_id, _DESCRIBE_TRANSACTIONS, 0, body)
        (found,) = answer.transaction_states
        return int(found.transaction_start_time_ms) if not found.error_code else -1

    def _quotas(self, broker: int) -> tuple[QuotaState, ...]:
        version = self._version(_QUOTAS, 0)
        answer = self._wire.call(broker, _QUOTAS, version, {"components": [], "strict": False})
        if answer.error_code:
            raise Refused("the quotas", answer.error_code)
        rows = []
        for entry in answer.entries or ():
            parts = [
                f"{each.entity_type} {'<default>' if each.entity_name is None else each.entity_name}"
                for each in entry.entity
            ]
            rows += [QuotaState(short(", ".join(parts)), each.key, each.value) for each in entry.values]
        return tuple(sorted(rows, key=lambda each: (each.entity, each.key))[:MOST_QUOTAS])

    def _folders(self, brokers: list[int]) -> tuple[dict[int, tuple[DiskState, ...]], dict[str, int]]:
        """Return the data folders of each broker, and the bytes of each topic, all replicas together."""
        version = self._version(_LOG_DIRS, _SPACE_SINCE)
        disks: dict[int, tuple[DiskState, ...]] = {}
        topics: dict[str, int] = {}
        for broker in brokers:
            found = []
            for folder in self._wire.call(broker, _LOG_DIRS, version, {"topics": None}).results:
                size = 0
                for topic in folder.topics:
                    of_topic = sum(each.partition_size for each in topic.partitions)
                    topics[topic.name] = topics.get(topic.name, 0) + of_topic
                    size += of_topic
                space = (folder.total_bytes, folder.usable_bytes) if version >= _SPACE_SINCE else (-1, -1)
                total, free = (each if each >= 0 else None for each in space)
                error = "it cannot be used" if folder.error_code else None
                found.append(DiskState(folder.log_dir, size, total, free, error))
            disks[broker] = tuple(found)
        return disks, topics
