"""Settings of the connector: frozen dataclasses with Alpakka's names where librdkafka has the same thing.

`properties` hold librdkafka properties. librdkafka checks them when a client is made, so the error names a misspelt property.
`property_rules.py` refuses those that break a promise and hides the secrets among them.
Environment variables STREAMACTORS_KAFKA_<PROPERTY> (upper case, dots as underscores) override properties.
Over 400 lines: the settings of the clients share their base, and each field has its meaning beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, TypeVar

from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.kafka.on_fenced import OnFenced, checked_on_fenced
from streamactors.kafka.property_rules import (
    BROKER_GROUP_RULES,
    CONSUMER_RULES,
    PRODUCER_RULES,
    Properties,
    Rule,
    addresses_of,
    check_properties,
)
from streamactors.stages.checks import at_least, plain_function
from streamactors.state import State

_ENVIRONMENT: Final = "STREAMACTORS_KAFKA_"
_SECURITY: Final = ("security.", "sasl.", "ssl.", "https.ca.")
_SERVERS: Final = "bootstrap.servers"
_ACCESS: Final = frozenset(
    {
        "oauth_cb",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "enable.ssl.certificate.verification",
        "broker.address.family",
        "client.dns.lookup",
    }
)
ADDRESS_MARK: Final = "@"
"""Separates the address of an instance from the rest of its client id; the group's other members find it there."""
_RESETS: Final = ("earliest", "latest", "error")
_GROUP_PROTOCOLS: Final = ("classic", "consumer")

S = TypeVar("S", bound="ClientSettings")

CONSUMER_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,  # reports the end of a partition: bounded reads and Idle need it
        # librdkafka waits up to 1 s once its queue is full, which costs 3 to 7 times the throughput
        "fetch.queue.backoff.ms": 1,
        "fetch.wait.max.ms": 20,
        # a pause throws away what was prefetched, so little is prefetched
        "queued.min.messages": 5_000,
        "queued.max.messages.kbytes": 2_048,
        "max.partition.fetch.bytes": 262_144,
    }
)
"""Properties of every consumer, unless `properties` override them. A bare librdkafka consumer is fastest with them, too."""

PRODUCER_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "partitioner": "murmur2_random",  # the same as Java's; librdkafka's CRC32 would break co-partitioning with Java
        "enable.idempotence": True,
        "linger.ms": 5,
        "acks": "all",
    }
)
"""Properties of every producer, unless `properties` override them."""

_REBOOTSTRAP_OPTIONAL: Final = (2, 11)  # the first confluent-kafka that works with metadata.recovery.strategy=none

TRANSACTIONAL_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    # No broker answers -> librdkafka starts again from the bootstrap servers and drops its broker handles -> a TxnOffsetCommit that waits
    # for a dropped handle is never sent -> the transaction hangs (seen with 2.16 after a broker's restart).
    {"metadata.recovery.strategy": "none"}
    if tuple(map(int, version("confluent-kafka").split(".")[:2])) >= _REBOOTSTRAP_OPTIONAL
    else {}
)
"""Further properties of a transactional producer, unless `properties` override them."""


@dataclass(frozen=True)
class ClientSettings:
    """Settings that consumers, producers and admin clients share."""

    bootstrap_servers: str
    """The brokers to connect to first: "host:port[,host:port …]"."""

    properties: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Further librdkafka properties, by their names."""

    preflight_timeout_ms: int = field(default=2_000, kw_only=True)
    """A broker that refuses connections for this long fails the stream with NoBroker. A port that takes connections has at least 4 s to
    answer."""

    close_timeout_ms: int = field(default=20_000, kw_only=True)
    """How long the closing of a client may take."""

    discover: Callable[[], str] | None = field(default=None, kw_only=True)
    """Returns the brokers to connect to first, instead of `bootstrap_servers`; called whenever a client is made. See `with_discovery`."""

    def _rules(self) -> Mapping[str, Rule]:
        return {}

    def __post_init__(self) -> None:
        addresses_of(self.bootstrap_servers)
        who = type(self).__name__
        for name, value in self.__dict__.items():
            if name.endswith("_bytes"):
                at_least(who, name, value, 0)
            elif name.endswith("_ms") and (value is not None or name != "outage_timeout_ms"):
                _milliseconds(who, name, value)
        if not isinstance(self.properties, Mapping):
            raise BuildError(
                f"{who}: properties must be a mapping of librdkafka properties, got a {type(self.properties).__name__}"
            )
        for name in self.properties:
            if not isinstance(name, str):
                raise BuildError(f"{who}: a property's name is a string, got {name!r}")
        check_properties(who, self._rules(), self.properties)
        object.__setattr__(self, "properties", MappingProxyType(Properties(self.properties)))

    def with_property(self: S, name: str, value: Any) -> S:
        """Return these settings with one librdkafka property set."""
        return replace(self, properties={**self.properties, name: value})

    def with_properties(self: S, properties: Mapping[str, Any]) -> S:
        """Return these settings with several librdkafka properties set."""
        if not isinstance(properties, Mapping):
            kind = type(properties).__name__
            raise BuildError(f"with_properties expects a mapping of librdkafka properties, got a {kind}")
        return replace(self, properties={**self.properties, **properties})

    def with_bootstrap_servers(self: S, bootstrap_servers: str) -> S:
        """Return these settings for another cluster."""
        return replace(self, bootstrap_servers=bootstrap_servers)

    def with_discovery(self: S, discover: Callable[[], str]) -> S:
        """Return these settings with a function that looks the bootstrap servers up: "host:port[,host:port …]".

        The function is called whenever a client is made, on that client's thread; `bootstrap_servers` stays the cluster's name in messages."""
        return replace(self, discover=plain_function("with_discovery", discover))

    def _servers(self) -> str:
        if self.discover is None:
            return self.bootstrap_servers
        try:
            found = self.discover()
        except BaseException as error:  # the user's function
            blame(error, f"with_discovery of {self.bootstrap_servers}", function=self.discover)
            raise
        addresses_of(found)
        return found

    def security(self) -> Properties:
        """Return the properties and callbacks with which another client connects to the same broker as the same user."""
        merged = self.merged({}, {})
        elsewhere = self.discover is not None or _SERVERS in self.properties
        kept = {*_ACCESS, _SERVERS} if elsewhere else _ACCESS
        return Properties({n: value for n, value in merged.items() if n.startswith(_SECURITY) or n in kept})

    def address(self) -> Properties:
        """Return the bootstrap servers and `security()`: all that an admin client needs."""
        return Properties({_SERVERS: self.merged({}, {})[_SERVERS], **self.security()})

    def as_consumer(self, group_id: str | None = None) -> ConsumerSettings:
        """Return settings of a consumer for the same broker and user; it reads from the earliest offset."""
        return ConsumerSettings(self.bootstrap_servers, group_id, "earliest", **self._shared())

    def as_producer(self) -> ProducerSettings:
        """Return settings of a producer for the same broker and user."""
        return ProducerSettings(self.bootstrap_servers, **self._shared())

    def _shared(self) -> dict[str, Any]:
        timeouts = {"preflight_timeout_ms": self.preflight_timeout_ms, "close_timeout_ms": self.close_timeout_ms}
        properties = dict(self.security())
        if self.discover is not None and _SERVERS not in self.properties:
            properties.pop(_SERVERS, None)  # found again by each client
        return {"properties": properties, "discover": self.discover, **timeouts}

    def merged(self, defaults: Mapping[str, Any], own: Mapping[str, Any]) -> Properties:
        """Return the properties for librdkafka: `defaults`, overridden by `own`, by the user's, and by the environment's."""
        environment = {
            name[len(_ENVIRONMENT) :].lower().replace("_", "."): value
            for name, value in os.environ.items()
            if name.startswith(_ENVIRONMENT)
        }
        check_properties(type(self).__name__, self._rules(), environment, f" (from {_ENVIRONMENT}…)")
        servers = {_SERVERS: self._servers()}
        merged = Properties({**servers, **defaults, **own, **self.properties, **environment})
        addresses_of(merged[_SERVERS])
        return merged


@dataclass(frozen=True)
class ResetProtection:
    """How far back librdkafka may reset a partition when the broker no longer has the consumer's position."""

    max_offsets_back: int = field(default=0, kw_only=True)
    """The largest number of offsets; 0: no reset is accepted."""

    max_time_back_ms: int | None = field(default=None, kw_only=True)
    """The longest time between the first record after the reset and the last record that was read before it. None: no limit."""

    def __post_init__(self) -> None:
        at_least("ResetProtection", "max_offsets_back", self.max_offsets_back, 0)
        if self.max_time_back_ms is not None:
            at_least("ResetProtection", "max_time_back_ms", self.max_time_back_ms, 0)


@dataclass(frozen=True)
class ConsumerSettings(ClientSettings):
    """How a consumer reads. Back-pressure is per partition: see `low_bytes`, `high_bytes` and `pause_dwell_ms`."""

    group_id: str | None = None
    """The consumer group; None for assigned partitions whose offsets are not committed."""

    auto_offset_reset: str = "latest"
    """Where a partition without a committed offset starts: earliest, latest or error."""

    poll_interval_ms: int = field(default=50, kw_only=True)
    """The pause between two polls while no source has demand."""

    poll_timeout_ms: int = field(default=50, kw_only=True)
    """How long one poll waits for its first record."""

    max_poll_records: int = field(default=1_000, kw_only=True)
    """The most records of one poll. A poll takes fewer where more would start a garbage collection."""

    high_bytes: int = field(default=4 << 20, kw_only=True)
    """A partition with more buffered bytes than this, for longer than `pause_dwell_ms`, is paused."""

    low_bytes: int = field(default=2 << 20, kw_only=True)
    """A paused partition with fewer buffered bytes than this is resumed."""

    pause_dwell_ms: int = field(default=100, kw_only=True)
    """How long a partition stays above `high_bytes` before it is paused."""

    max_buffered_bytes: int = field(default=32 << 20, kw_only=True)
    """The bytes buffered for all partitions together. A partition is paused above its share of them (of at least 256 KiB) if that is less than
    `high_bytes`, and all filled partitions are paused when together they hold a quarter more. The sub-sources of a partitioned source hold at most as many."""

    commit_interval_ms: int = field(default=1_000, kw_only=True)
    """The time between two commits of done offsets."""

    commit_timeout_ms: int = field(default=15_000, kw_only=True)
    """A commit that has not succeeded after this time fails with CommitTimeout."""

    revoke_timeout_ms: int = field(default=5_000, kw_only=True)
    """How long a revoked partition waits for its records in flight before the rebalance continues."""

    wait_close_partition_ms: int = field(default=500, kw_only=True)
    """How long the sub-source of a revoked partition stays open. An eager rebalance often assigns the partition again at once."""

    outage_timeout_ms: int | None = field(default=None, kw_only=True)
    """A running source whose brokers have all been gone for this long fails with NoBroker. None: it waits, and says so once.
    Looked at every `statistics.interval.ms`, which is 5 s unless `properties` say otherwise."""

    max_in_flight: int | None = field(default=None, kw_only=True)
    """The most offsets in hand of a partition that are acknowledged above an unacknowledged one; delivery stops there. Records that are
    already delivered come on top. None: no bound."""

    group_protocol: str = field(default="classic", kw_only=True)
    """How members of the group get their partitions. "classic": a member divides them, in rebalances that all members join. "consumer": the
    broker divides them and moves partitions one by one (KIP-848; Apache Kafka 4.0 or newer); session, heartbeat and assignor are settings of
    the group at the broker then. A
    consumer of several topics asks for the assignor `range`, unless the property group.remote.assignor names one: windows over them need it."""

    reset_protection: ResetProtection | None = field(default=None, kw_only=True)
    """Keeps the position of a partition whose broker has lost records. None: the partition is read again from where `auto_offset_reset` says."""

    state: State = field(default=State(), kw_only=True)
    """Where windows, tables and stores keep their state: `State.in_memory()` or `State.on_disk(path)`; both have changelogs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auto_offset_reset not in _RESETS:
            raise BuildError(f"auto_offset_reset must be one of {', '.join(_RESETS)}, got {self.auto_offset_reset!r}")
        if self.group_protocol not in _GROUP_PROTOCOLS:
            raise BuildError(
                f"group_protocol must be one of {', '.join(_GROUP_PROTOCOLS)}, got {self.group_protocol!r}"
            )
        _text_or_none("ConsumerSettings", "group_id", self.group_id)
        if self.group_id is not None and not self.group_id.strip():
            raise BuildError("ConsumerSettings: group_id must not be empty; None reads without a group")
        at_least("ConsumerSettings", "max_poll_records", self.max_poll_records, 1)
        if not isinstance(self.state, State):
            raise BuildError(
                f"ConsumerSettings: state is {self.state!r}; give State.in_memory() or State.on_disk(path)"
            )
        if self.low_bytes > self.high_bytes:
            raise BuildError(f"low_bytes ({self.low_bytes}) must not exceed high_bytes ({self.high_bytes})")
        if not isinstance(self.reset_protection, ResetProtection | None):
            raise BuildError(f"ConsumerSettings: reset_protection is {self.reset_protection!r}; give ResetProtection()")
        if self.max_in_flight is not None:
            at_least("ConsumerSettings", "max_in_flight", self.max_in_flight, 1)

    def _rules(self) -> Mapping[str, Rule]:
        return {**CONSUMER_RULES, **BROKER_GROUP_RULES} if self.group_protocol == "consumer" else CONSUMER_RULES

    def with_group_id(self, group_id: str | None) -> ConsumerSettings:
        """Return these settings for another consumer group."""
        return replace(self, group_id=group_id)

    def with_state(self, state: State) -> ConsumerSettings:
        """Return these settings with another place for state."""
        return replace(self, state=state)

    def with_auto_offset_reset(self, auto_offset_reset: str) -> ConsumerSettings:
        """Return these settings with another start for partitions without a committed offset."""
        return replace(self, auto_offset_reset=auto_offset_reset)

    def client_properties(self) -> Properties:
        """Return all properties of the client."""
        own = {"group.id": self.group_id or "", "auto.offset.reset": self.auto_offset_reset}
        if self.group_protocol != "classic" and self.group_id is not None:
            own["group.protocol"] = self.group_protocol
        if self.state.advertise is not None:
            own["client.id"] = f"streamactors{ADDRESS_MARK}{self.state.advertise}"
        return self.merged(CONSUMER_PROPERTIES, own)


@dataclass(frozen=True)
class ProducerSettings(ClientSettings):
    """How a producer writes."""

    parallelism: int = field(default=10_000, kw_only=True)
    """The most elements that wait for their acknowledgement; more become back-pressure."""

    commit_interval_ms: int = field(default=100, kw_only=True)
    """The time between two commits of a transactional producer."""

    transaction_timeout_ms: int = field(default=10_000, kw_only=True)
    """How long one step of a transaction's commit may take."""

    transactional_id: str | None = field(default=None, kw_only=True)
    """The transactional id, the same after a restart; None: no transactions. In member 2 of `streamactors run --processes` a run appends
    "-2" to it, because members with the same id would fence each other."""

    on_fenced: OnFenced = field(default="restart", kw_only=True)
    """When a transactional run has lost its partitions or its transaction, as after a freeze that outlasts its session: "restart" begins the run
    again in its process, up to 10 times in a row after 1 to 30 s; RestartSettings say another back-off; "fail" fails the stream."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_on_fenced(self.on_fenced)
        at_least("ProducerSettings", "parallelism", self.parallelism, 1)
        _text_or_none("ProducerSettings", "transactional_id", self.transactional_id)
        if self.transactional_id is not None and not self.transactional_id.strip():
            raise BuildError("ProducerSettings: transactional_id must not be empty; None writes without transactions")

    def _rules(self) -> Mapping[str, Rule]:
        return PRODUCER_RULES

    def with_transactional_id(self, transactional_id: str | None) -> ProducerSettings:
        """Return these settings for a transactional producer."""
        return replace(self, transactional_id=transactional_id)

    def client_properties(self) -> Properties:
        """Return all properties of the client."""
        if self.transactional_id is None:
            return self.merged(PRODUCER_PROPERTIES, {})
        own = {"transactional.id": self.transactional_id}
        return self.merged({**PRODUCER_PROPERTIES, **TRANSACTIONAL_PROPERTIES}, own)


@dataclass(frozen=True)
class CommitterSettings:
    """How a Committer commits offsets in hand."""

    max_batch: int = 1_000
    """A batch of this many offsets is committed at once."""

    max_interval_ms: int = 10_000
    """A smaller batch is committed this long after its first offset."""

    parallelism: int = 100
    """The most batches that wait for the broker; more become back-pressure."""

    max_retries: int = 10
    """How often a commit with a retriable error is retried, within the consumer's `commit_timeout_ms`."""

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            at_least("CommitterSettings", name, value, 1)

    def with_max_batch(self, max_batch: int) -> CommitterSettings:
        """Return these settings with another batch size."""
        return replace(self, max_batch=max_batch)

    def with_max_interval(self, max_interval_ms: int) -> CommitterSettings:
        """Return these settings with another interval."""
        return replace(self, max_interval_ms=max_interval_ms)


def _milliseconds(who: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise BuildError(f"{who}: {name} must be a number of at least 0, in ms, got {value!r}")


def _text_or_none(who: str, name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise BuildError(f"{who}: {name} must be a string or None, got {type(value).__name__} {value!r}")
