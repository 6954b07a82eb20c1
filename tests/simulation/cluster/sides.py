"""The two sides of a comparison: a real broker with real clients, and the simulated cluster with its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.simulation.client.consumer import SimConsumer
from streamactors.simulation.client.producer import SimProducer
from streamactors.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.cluster import group_history
from tests.simulation.cluster.one_task_world import OneTaskWorld


class Side:
    """Makes clients, and keeps two readers and a writer for all histories: a new member takes a second to find its coordinator."""

    def __init__(self) -> None:
        self._readers: list[Any] = []
        self._writer: Any = None
        self._members: dict[str, Any] = {}

    def readers(self, properties: Mapping[str, Any]) -> list[Any]:
        named = {**properties, "group.id": "readers"}
        self._readers = self._readers or [self.consumer(named) for _ in range(2)]
        return self._readers

    def writer(self, properties: Mapping[str, Any]) -> Any:
        if self._writer is None:
            self._writer = self.producer(properties)
        return self._writer

    def consumer(self, properties: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def producer(self, properties: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def member_of(self, group: str, properties: Mapping[str, Any]) -> Any:
        """Return a consumer of a group, which is not subscribed."""
        if group not in self._members:
            self._members[group] = self.consumer({**properties, "group.id": group})
        return self._members[group]

    def group_of(self, group: str) -> Any:
        """Return the metadata of a group without members."""
        return self.member_of(group, {"enable.auto.commit": False, "log_level": 0}).consumer_group_metadata()

    def close(self) -> None:
        for reader in (*self._readers, *self._members.values()):
            reader.close()
        self._readers, self._members, self._writer = [], {}, None


class Real(Side):
    """Clients of a running broker."""

    clock_s = staticmethod(time.monotonic)

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__()
        self._address = {"bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient(self._address)

    def consumer(self, properties: Mapping[str, Any]) -> Any:
        return ck.Consumer({**self._address, **properties})

    def producer(self, properties: Mapping[str, Any]) -> Any:
        return ck.Producer({**self._address, **properties})

    def create(self, topics: Mapping[str, int], settings: Mapping[str, str]) -> None:
        wanted = [NewTopic(name, count, 1, config=dict(settings)) for name, count in topics.items()]
        for future in self._admin.create_topics(wanted).values():
            future.result()


class Simulated(Side):
    """Clients of a simulated cluster in a world of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.world = OneTaskWorld(seed)
        self.cluster = SimulatedCluster(self.world, settings=group_history.BY_BROKER)

    def clock_s(self) -> float:
        return self.world.now_ms() / 1_000

    def consumer(self, properties: Mapping[str, Any]) -> Any:
        return SimConsumer(self.world, self.cluster, properties)

    def producer(self, properties: Mapping[str, Any]) -> Any:
        return SimProducer(self.world, self.cluster, properties)

    def create(self, topics: Mapping[str, int], settings: Mapping[str, str]) -> None:
        for name, count in topics.items():
            self.cluster.create_topic(name, count, settings=settings)
