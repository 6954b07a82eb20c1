"""A simulated Apache Kafka cluster.

Owner: a simulation. Clients send requests to it (`apis/`), faults stop its brokers and move its leaders. It changes by steps that the world runs; no
method waits. The brokers' settings have Kafka's names and defaults, with those of `DEFAULTS` instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.command import CreateTopics, NewTopic
from streamactors.broker.controller.rules.plan_topics import create_topics
from streamactors.broker.errors import ErrorCode
from streamactors.errors import StreamActorsError
from streamactors.simulation.cluster.coordination.groups import Groups
from streamactors.simulation.cluster.coordination.transactions import Transactions
from streamactors.simulation.cluster.partitions.cleaning import clean
from streamactors.simulation.cluster.topics import Topics
from streamactors.simulation.cluster.weather import Calm, Weather

if TYPE_CHECKING:
    from streamactors.broker.metadata.delta import ImageDelta
    from streamactors.simulation.world.face import World

DEFAULTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
}
"""Settings that differ from Kafka's defaults, as in `Cluster`."""
REPLICATION_MS: Final = 3.0
"""The time in which a follower copies what is new, at most."""


class UnknownTopic(StreamActorsError, LookupError):
    """A fault or a test named a topic that does not exist."""


class SimulatedCluster:
    """Brokers, topics, groups and transactions in memory."""

    def __init__(
        self,
        world: World,
        *,
        brokers: int = 1,
        settings: Mapping[str, Any] | None = None,
        weather: Weather | None = None,
    ) -> None:
        """`settings` are those of every broker, by Kafka's names. Raises InvalidSetting."""
        self.world = world
        self.config = BrokerConfig.of({**DEFAULTS, **(settings or {})})
        self.weather: Weather = weather or Calm(world.dice)
        """Decides about each request; faults replace it."""
        self.clients = 0
        """The number of clients that were made."""
        self.cut_off: set[int] = set()
        """Brokers that run, and that neither clients nor other brokers reach."""
        self.asked: Callable[[str, str], None] = lambda instance, api: None
        """Called with the instance and the name of the API before a client sends a request."""
        self.refuses: dict[str, ErrorCode] = {}
        """The name of an API -> the error that it answers: missing rights, a feature that is off."""
        self.refuses_instances: dict[str, ErrorCode] = {}
        """As `refuses`, for the clients of instances alone; what is outside of all instances is served."""
        self.in_transaction: dict[str, list[Mapping[str, object]]] = {}
        """The offsets that open transactions will commit, as facts of events, by transactional id."""
        self.topics = Topics(world, self.config, brokers, self._replication_ms)
        self.groups = Groups(world, self.topics, self._chosen)
        self.transactions = Transactions(world, self.topics, self.groups, self._chosen)
        self.topics.changed = self._changed
        world.later(float(self.config.log_retention_check_interval_ms), self._clean, "retention and compaction")

    def _replication_ms(self, follower: int) -> float | None:
        if follower in self.cut_off or not self.topics.is_alive(follower):
            return None
        return self.world.dice.uniform(0.1, REPLICATION_MS)

    def _chosen(self, index: int) -> int:
        """Return the broker that leads a partition of an internal topic."""
        alive = self.brokers_alive()
        return alive[index % len(alive)] if alive else -1

    def _changed(self, delta: ImageDelta) -> None:
        self.groups.topics_changed(delta)

    def _clean(self) -> None:
        for partition in tuple(self.topics.partitions.values()):
            clean(partition, self.world.wall_ms())
            partition.shrink_isr()
        self.world.later(float(self.config.log_retention_check_interval_ms), self._clean, "retention and compaction")

    # --- for whoever prepares a simulation ---

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic at once. Raises UnknownTopic with the broker's reason if its rules refuse it."""
        configs = tuple((key, str(value)) for key, value in (settings or {}).items())
        topic = NewTopic(name, partitions, replication_factor, configs=configs)
        outcome = self.topics.change(create_topics, CreateTopics((topic,)))[name].outcome
        if outcome.code is not ErrorCode.NONE:
            raise UnknownTopic(f"topic {name} cannot be created: {outcome.message or outcome.code.name}")

    # --- brokers ---

    @property
    def brokers(self) -> range:
        """The numbers of all brokers."""
        return range(len(self.topics.image.brokers))

    def brokers_alive(self) -> list[int]:
        """Return the numbers of the brokers that run."""
        return self.topics.image.live_brokers()

    def is_reached(self, broker: int) -> bool:
        """Whether clients get an answer of a broker."""
        return broker >= 0 and broker not in self.cut_off and self.topics.is_alive(broker)

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: others lead its partitions, as far as their ISR has one, and coordinate its groups."""
        self.topics.set_alive(broker, False)
        self._move_coordinators(broker)

    def start_broker(self, broker: int) -> None:
        """Start a broker again; it copies what it has missed."""
        self.cut_off.discard(broker)
        self.topics.set_alive(broker, True)
        for coordinators in (self.groups.coordinators, self.transactions.coordinators):
            for index in coordinators.led_by(-1):
                coordinators.move(index, self._chosen(index))

    def cut(self, broker: int) -> None:
        """Cut a broker off: it has no part in anything, and the cluster fences it."""
        self.cut_off.add(broker)
        self.stop_broker(broker)

    def move_leader(self, topic: str, partition: int, to: int) -> bool:
        """Let another replica lead a partition. Returns whether it does; a replica outside the ISR cannot. Raises UnknownTopic."""
        found = self.topics.get(topic, partition)
        if found is None:
            raise UnknownTopic(f"{topic}-{partition}: no such partition; create the topic first")
        return found.move_leader(to)

    def move_coordinator(self, group_id: str, to: int) -> None:
        """Let another broker coordinate a group, and the other groups of its offsets partition."""
        coordinators = self.groups.coordinators
        coordinators.move(coordinators.index_of(group_id), to)

    def move_transaction_coordinator(self, transactional_id: str, to: int) -> None:
        """Let another broker coordinate a transactional id, and the others of its partition."""
        coordinators = self.transactions.coordinators
        coordinators.move(coordinators.index_of(transactional_id), to)

    def _move_coordinators(self, broker: int) -> None:
        alive = self.brokers_alive()
        for coordinators in (self.groups.coordinators, self.transactions.coordinators):
            for index in coordinators.led_by(broker):
                coordinators.move(index, alive[index % len(alive)] if alive else -1)

    # --- where requests go ---

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, -1 for none."""
        found = self.topics.get(topic, partition)
        return -1 if found is None else found.leader

    def group_coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a group, -1 for none."""
        return self.groups.coordinators.leader(self.groups.coordinators.index_of(group_id))

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id, -1 for none."""
        return self.transactions.coordinators.leader(self.transactions.coordinators.index_of(transactional_id))

    def any_broker(self) -> int:
        """Return a broker that answers, -1 for none."""
        return next((each for each in self.brokers_alive() if each not in self.cut_off), -1)
