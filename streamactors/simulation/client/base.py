"""What simulated consumers, producers and admin clients share: properties, a link, events for callbacks, and calls that wait.

Owner: the thread (task) that uses the client. Callbacks run inside `poll`, `consume` and `flush`, as in librdkafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck, ck_admin
from streamactors.simulation.client.errors import failure, kafka_error
from streamactors.simulation.client.link import Api, Link
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.cluster.apis.data import KnownTopic, Metadata, metadata

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World

FOREVER: Final = -1
_WARNING: Final = 30
_AGAIN_MS: Final = 100.0


class SimClient:
    """A client of a simulated cluster."""

    kind = "client"

    def __init__(self, world: World, cluster: SimulatedCluster, properties: Mapping[str, Any]) -> None:
        self.properties = ClientProperties(properties)
        self.client_id = self.properties.text("client.id", "rdkafka")
        self.world = world
        self.cluster = cluster
        cluster.clients += 1
        self.name = f"{self.kind}-{cluster.clients}"
        self.link = Link(world, cluster, self.name, world.instance())
        self.link.broken = self._broken
        self.events: deque[Callable[[], None]] = deque()
        """Callbacks that wait for the next poll."""
        self._error_cb = self.properties.callback("error_cb")
        self._stats_cb = self.properties.callback("stats_cb")
        self._stats_ms = self.properties.number("statistics.interval.ms", 0)
        self._stats_due_ms = world.now_ms() + self._stats_ms
        self._logger = self.properties.callback("logger")

    # --- calls that wait ---

    def call(self, api: Api, broker: int, request: Any, timeout_s: float) -> tuple[ErrorCode | None, Any]:
        """Send a request and wait; return (error, answer). Without an answer in time the error is None."""
        found: list[tuple[ErrorCode | None, Any]] = []
        self.link.ask(api, broker, request, lambda error, answer: found.append((error, answer)))
        self.world.wait(lambda: bool(found), limit_ms(timeout_s))
        return found[0] if found else (None, None)

    def list_topics(self, topic: str | None = None, timeout: float = FOREVER) -> Any:
        """Return the cluster's topics and brokers. Raises KafkaException (_TRANSPORT) if no broker answers in time."""
        limit, now_ms = limit_ms(timeout), self.world.now_ms
        until_ms = inf if limit is None else now_ms() + limit
        asked = Metadata(None if topic is None else (topic,))
        while True:
            left_s = max(until_ms - now_ms(), 0.0) / 1_000
            error, found = self.call(metadata, self.cluster.any_broker(), asked, FOREVER if left_s == inf else left_s)
            if error is not None:
                break
            if now_ms() + _AGAIN_MS >= until_ms:
                raise failure(ck.KafkaError._TRANSPORT)
            self.world.sleep(_AGAIN_MS)
        if error is not ErrorCode.NONE:
            raise failure(int(error))
        return _cluster_metadata(self.cluster, found)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Do nothing: a simulated cluster asks for no login."""

    # --- callbacks ---

    def _broken(self) -> None:
        if self._error_cb is not None and self.cluster.any_broker() < 0:
            error = kafka_error(ck.KafkaError._ALL_BROKERS_DOWN)
            self.events.append(lambda: self._error_cb(error))  # type: ignore[misc]

    def report(self, error: Any) -> None:
        """Call the error callback at the next poll."""
        if self._error_cb is not None:
            self.events.append(lambda: self._error_cb(error))  # type: ignore[misc]

    def raise_later(self, error: Any) -> None:
        """Raise a fatal error in the next call that serves callbacks, once, as confluent-kafka does instead of calling the error callback."""

        def due() -> None:
            raise ck.KafkaException(error)

        self.events.append(due)

    def log(self, text: str) -> None:
        """Write a warning of librdkafka's log."""
        if self._logger is not None:
            self._logger.log(_WARNING, text)  # type: ignore[attr-defined]

    def serve_events(self) -> int:
        """Run the callbacks that wait; return how many there were. One that raises ends the call."""
        if self._stats_ms and self._stats_cb is not None and self.world.now_ms() >= self._stats_due_ms:
            self._stats_due_ms = self.world.now_ms() + self._stats_ms
            self._stats_cb(self.statistics())
        served = 0
        while self.events:
            served += 1
            self.events.popleft()()
        return served

    def statistics(self) -> str:
        """Return the statistics as JSON, with the fields that the connector reads."""
        return "{}"


def limit_ms(timeout_s: float | None) -> float | None:
    """Return a timeout in ms, None for one that never ends."""
    return None if timeout_s is None or timeout_s < 0 else timeout_s * 1_000


def _cluster_metadata(cluster: SimulatedCluster, topics: list[KnownTopic]) -> Any:
    found = ck_admin.ClusterMetadata()
    found.cluster_id = "simulated"
    found.controller_id = cluster.any_broker()
    found.orig_broker_id = found.controller_id
    found.orig_broker_name = "simulated"
    for number in cluster.brokers_alive():
        broker = ck_admin.BrokerMetadata()
        broker.id, broker.host, broker.port = number, "simulated", 9092 + number
        found.brokers[number] = broker
    for topic in topics:
        made = ck_admin.TopicMetadata()
        made.topic = topic.name
        made.error = kafka_error(int(topic.error)) if topic.error else None
        for known in topic.partitions:
            partition = ck_admin.PartitionMetadata()
            partition.id, partition.leader = known.partition, known.leader
            partition.replicas, partition.isrs = list(known.replicas), list(known.isr)
            made.partitions[known.partition] = partition
        found.topics[topic.name] = made
    return found
