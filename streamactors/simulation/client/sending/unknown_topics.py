"""Records for topics that do not exist yet: they wait for topic.metadata.propagation.max.ms, and fail then.

Owner: the producer. As librdkafka, it asks for the topic, which lets a cluster with auto.create.topics.enable create it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.client.sending.reports import Reports
from streamactors.simulation.cluster.apis.data import Metadata, metadata

_ASK_EVERY_MS: Final = 250.0
Assigned = Callable[[str, int, Any, Any, int], None]


class UnknownTopics:
    """Records by topic."""

    def __init__(self, link: Link, properties: ClientProperties, reports: Reports, assigned: Assigned) -> None:
        self.count = 0
        self._link = link
        self._reports = reports
        self._assigned = assigned
        self._limit_ms = properties.number("topic.metadata.propagation.max.ms", 30_000)
        self._waiting: dict[str, list[tuple[int, Any, Any, int]]] = {}

    def add(self, topic: str, partition: int, row: Any, report: Any, size: int) -> None:
        """Keep a record until its topic exists."""
        self.count += 1
        first = topic not in self._waiting
        self._waiting.setdefault(topic, []).append((partition, row, report, size))
        if first:
            self._ask(topic, self._link.world.now_ms() + self._limit_ms)

    def _ask(self, topic: str, until_ms: float) -> None:
        link = self._link

        def then(_error: ErrorCode | None, _found: Any) -> None:
            if topic not in self._waiting:
                return
            if link.cluster.topics.of(topic):
                for each in self._take(topic):
                    self._assigned(topic, *each)
            elif link.world.now_ms() >= until_ms:
                self._fail(topic, ck.KafkaError._UNKNOWN_TOPIC)
            else:
                link.later(_ASK_EVERY_MS, lambda: self._ask(topic, until_ms), "topic again")

        link.ask(metadata, link.cluster.any_broker(), Metadata((topic,), create=True), then)

    def _take(self, topic: str) -> list[tuple[int, Any, Any, int]]:
        taken = self._waiting.pop(topic)
        self.count -= len(taken)
        return taken

    def _fail(self, topic: str, code: int) -> None:
        for partition, row, report, _ in self._take(topic):
            self._reports.failed((topic, partition), [row], [report], kafka_error(code))

    def purge(self) -> None:
        """Drop all of them."""
        for topic in tuple(self._waiting):
            self._fail(topic, ck.KafkaError._PURGE_QUEUE)
