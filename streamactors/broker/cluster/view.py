"""What a cluster of several brokers looks like, as one of its live brokers tells a client.

Owner: `SeveralBrokers`. Each question is one Metadata request over a socket of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.wire_request import call

METADATA: Final = (3, 12)
DESCRIBE_QUORUM: Final = (55, 2)


class PartitionView(NamedTuple):
    """A partition as a client sees it. Leader -1: none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class View:
    """Asks any of the addresses that `live` returns. `credentials`: the TLS and the login of the connections."""

    def __init__(self, live: Callable[[], Sequence[str]], credentials: ListenerCredentials | None = None) -> None:
        self._live = live
        self._credentials = credentials

    def ask(self, address: str, api: tuple[int, int], body: Mapping[str, Any]) -> Any:
        """Return one broker's answer to a request of (key, version). Raises OSError."""
        return call(address, api, body, self._credentials)

    def metadata(self, topics: Sequence[str] | None) -> Any:
        """Return the answer of the first broker that gives one. Raises BrokerError if none does."""
        asked = None if topics is None else [{"name": name, "topic_id": None} for name in topics]
        why: object = "none is running"
        for address in self._live():
            try:
                return self.ask(address, METADATA, {"topics": asked, "allow_auto_topic_creation": False})
            except OSError as error:
                why = error
        raise BrokerError(f"no broker of the cluster answers: {why}")

    def partition(self, topic: str, index: int) -> PartitionView:
        """Return a partition. Raises BrokerError if there is no such partition."""
        (found,) = self.metadata([topic]).topics
        for each in found.partitions:
            if each.partition_index == index:
                return PartitionView(each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
        why = ErrorCode(found.error_code).name if found.error_code else f"it has {len(found.partitions)} partitions"
        raise BrokerError(f"there is no partition {topic}-{index}: {why}")

    def brokers(self) -> dict[int, str]:
        """Return the addresses of the brokers that are not fenced, by id."""
        return {each.node_id: f"{each.host}:{each.port}" for each in self.metadata([]).brokers}

    def controller(self) -> int:
        """Return the id of the active controller. Raises BrokerError if none leads."""
        asked = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
        why: object = "none is running"
        for address in self._live():
            try:
                partition = self.ask(address, DESCRIBE_QUORUM, asked).topics[0].partitions[0]
            except OSError as error:
                why = error
                continue
            if not partition.error_code:
                return int(partition.leader_id)
            why = ErrorCode(partition.error_code).name
        raise BrokerError(f"no broker of the cluster names the active controller: {why}")

    def topics(self) -> list[str]:
        """Return the names of all topics, internal ones too."""
        return sorted(each.name for each in self.metadata(None).topics)
