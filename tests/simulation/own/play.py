"""Runs pipelines of this project as instances in a simulated world, with crashes and bad weather, as a service manager would keep them running."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import confluent_kafka as ck

from streamactors import ActorSystem, Source
from streamactors.errors import BuildError
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.world.simulated import SimulatedWorld
from tests.simulation.cluster.storms import Storm

SERVERS = "simulated:9092"
WRITER = ProducerSettings(SERVERS)
BACK_OFF_MS = 1_000.0
Pipeline = Callable[["Play", str], object]
"""Runs one instance until its end; it gets the instance's name."""


class Play:
    """One run: a cluster of three brokers, and instances that are started again when they end with an error."""

    def __init__(self, seed: int | str, pipeline: Pipeline, topics: Mapping[str, Any]) -> None:
        """`topics`: the number of partitions, or a dict of settings with `partitions` in it."""
        self.world = SimulatedWorld(seed)
        self.dice = random.Random(f"{seed}/play")
        self.failed: list[tuple[str, BaseException]] = []
        """The instances that ended with an error, and the error."""
        self._pipeline = pipeline
        self._topics = topics
        self.cluster: SimulatedCluster
        self.storm: Storm

    def run(self, body: Callable[[Play], Any], *, lost: float = 0.0) -> Any:
        """Run `body` in the world; return its result. `lost`: how often a request or an answer is lost until `storm.over`."""

        def main() -> Any:
            self.cluster = SimulatedCluster(self.world, brokers=3)
            for name, given in self._topics.items():
                settings = {"partitions": given} if isinstance(given, int) else dict(given)
                self.cluster.create_topic(name, settings.pop("partitions"), 3, settings)
            self.cluster.weather = self.storm = Storm(self.dice, lost=lost, unanswered=lost)
            with simulated_clients(self.world, self.cluster):
                return body(self)

        return self.world.run(main)

    # --- instances ---

    def start(self, *instances: str) -> None:
        """Start instances, each again after an error."""
        for instance in instances:
            self.world.start(instance, lambda each=instance: self._supervised(each))  # type: ignore[misc]

    def _supervised(self, instance: str) -> None:
        while True:
            try:
                self._pipeline(self, instance)
            except BuildError:
                raise  # no start repairs a wrong graph
            except Exception as error:
                self.failed.append((instance, error))
                self.world.sleep(BACK_OFF_MS)
            else:
                return

    def crash(
        self, instance: str, *, after_ms: tuple[float, float], torn: bool = False, disk_lost: bool = False
    ) -> None:
        """Wait, crash an instance, wait a moment, and start it again."""
        self.sleep(*after_ms)
        self.world.crash(instance, torn=torn)
        if disk_lost:
            self.world.lose_disk(instance)
        self.sleep(100, 2_000)
        self.start(instance)

    def sleep(self, least_ms: float, most_ms: float) -> None:
        """Wait for a random time."""
        self.world.sleep(self.dice.uniform(least_ms, most_ms))

    # --- records ---

    def send(self, topic: str, records: Iterable[tuple[Any, ...]], over: str | None = None) -> None:
        """Write (key, value) or (key, value, timestamp in ms), evenly over a span of time; return when all are written."""
        rows = [ProducerRecord(topic, each[1], each[0], timestamp=(each[2:] or (None,))[0]) for each in records]
        source: Any = Source.from_iterable(rows)
        with ActorSystem() as system:
            if over is not None:
                source = source.throttle(len(rows), over)
            source.run_with(Producer.plain_sink(WRITER), system).result(3_600)

    def read(self, topic: str) -> list[Any]:
        """Return the committed messages of a topic, by partition and offset."""
        group = {"group.id": "look", "enable.auto.commit": False, "enable.partition.eof": True}
        reader = ck.Consumer({"bootstrap.servers": SERVERS, **group})
        wanted = [each.index for each in self.cluster.topics.of(topic)]
        reader.assign([ck.TopicPartition(topic, each, 0) for each in wanted])
        found: list[Any] = []
        ends: set[int | None] = set()
        while len(ends) < len(wanted):
            message = reader.poll(30.0)
            assert message is not None, f"{topic}: the end of {set(wanted) - ends} does not come"
            if message.error() is None:
                found.append(message)
            else:
                ends.add(message.partition())
        reader.close()
        return sorted(found, key=lambda each: (each.partition(), each.offset()))

    def until(self, holds: Callable[[], bool], within_ms: float = 600_000.0) -> bool:
        """Wait until something holds, looking once a second. Returns whether it does."""
        end_ms = self.world.now_ms() + within_ms
        while not holds():
            if self.world.now_ms() >= end_ms:
                return False
            self.world.sleep(1_000)
        return True
