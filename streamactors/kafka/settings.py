"""Settings of the connector: frozen, with Alpakka's names where they make sense on librdkafka, and the reason of each default.

`properties` hold any librdkafka property; they are checked when a client is made, so a typo is an error that names it. Environment
variables STREAMACTORS_KAFKA_<PROPERTY> (dots as underscores, upper case) override properties."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, TypeVar

from streamactors.errors import BuildError
from streamactors.stages.checks import at_least

_ENVIRONMENT: Final = "STREAMACTORS_KAFKA_"
_SECURITY: Final = ("security.", "sasl.", "ssl.")
_RESETS: Final = ("earliest", "latest", "error")

S = TypeVar("S", bound="ClientSettings")

CONSUMER_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,  # tells where the end is: bounded reads, Idle
        # librdkafka waits up to 1 s once its queue is full, which costs 3 to 7 times the throughput
        "fetch.queue.backoff.ms": 1,
        "fetch.wait.max.ms": 20,
        # little is prefetched, so little is thrown away when a partition is paused
        "queued.min.messages": 5_000,
        "queued.max.messages.kbytes": 2_048,
        "max.partition.fetch.bytes": 262_144,
    }
)
"""What every consumer is made with, unless `properties` say otherwise; the values a bare client is fastest with, too."""

PRODUCER_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "partitioner": "murmur2_random",  # as Java's; librdkafka's CRC32 would break co-partitioning with Java
        "enable.idempotence": True,
        "linger.ms": 5,
        "acks": "all",
    }
)

_REBOOTSTRAP_OPTIONAL: Final = (2, 11)  # the first confluent-kafka that can do without and lives on

TRANSACTIONAL_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType(
    # When no broker answers, librdkafka begins again with the bootstrap servers and takes its broker handles away. A TxnOffsetCommit
    # that waits for such a handle is never sent, and the transaction hangs for ever (seen with 2.16, after a broker's restart).
    {"metadata.recovery.strategy": "none"}
    if tuple(map(int, version("confluent-kafka").split(".")[:2])) >= _REBOOTSTRAP_OPTIONAL
    else {}
)
"""What a transactional producer is made with besides, unless `properties` say otherwise."""


@dataclass(frozen=True)
class ClientSettings:
    """What consumers and producers share. `bootstrap_servers`: "host:port[,host:port …]". `preflight_timeout_ms`: how long a broker may
    refuse before a stream fails with NoBroker; one that was reached and says nothing has 10 s more. `close_timeout_ms`: how long the end
    may take."""

    bootstrap_servers: str
    properties: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    preflight_timeout_ms: int = field(default=3_000, kw_only=True)
    close_timeout_ms: int = field(default=20_000, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.bootstrap_servers, str) or not self.bootstrap_servers.strip():
            raise BuildError(f"bootstrap_servers must be 'host:port', got {self.bootstrap_servers!r}")
        who = type(self).__name__
        for name, value in self.__dict__.items():
            if name.endswith("_bytes"):
                at_least(who, name, value, 0)
            elif name.endswith("_ms"):
                _milliseconds(who, name, value)
        if not isinstance(self.properties, Mapping):
            raise BuildError(f"{who}: properties must be a mapping of librdkafka's, got {self.properties!r}")
        for name in self.properties:
            if not isinstance(name, str):
                raise BuildError(f"{who}: a property's name is a text, got {name!r}")
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))

    def with_property(self: S, name: str, value: Any) -> S:
        """Return these settings with one librdkafka property set."""
        return replace(self, properties={**self.properties, name: value})

    def with_properties(self: S, properties: Mapping[str, Any]) -> S:
        """Return these settings with several librdkafka properties set."""
        return replace(self, properties={**self.properties, **properties})

    def with_bootstrap_servers(self: S, bootstrap_servers: str) -> S:
        """Return these settings for another cluster."""
        return replace(self, bootstrap_servers=bootstrap_servers)

    def security(self) -> dict[str, Any]:
        """Return the properties by which other clients of the same user are let in by the same broker."""
        return {name: value for name, value in self.merged({}, {}).items() if name.startswith(_SECURITY)}

    def address(self) -> dict[str, Any]:
        """Return what an admin client needs to reach the same broker as the same user."""
        return {"bootstrap.servers": self.merged({}, {})["bootstrap.servers"], **self.security()}

    def merged(self, defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Return all properties for librdkafka: defaults, then `own`, then the user's, then the environment's."""
        merged = {"bootstrap.servers": self.bootstrap_servers, **defaults, **own, **self.properties}
        for name, value in os.environ.items():
            if name.startswith(_ENVIRONMENT):
                merged[name[len(_ENVIRONMENT) :].lower().replace("_", ".")] = value
        return merged


@dataclass(frozen=True)
class ConsumerSettings(ClientSettings):
    """How a consumer reads.

    `poll_interval_ms`: pause between polls while nobody waits for records. `poll_timeout_ms`: how long one poll waits for the first
    record, `max_poll_records` how many it brings at most (fewer where more would set off the garbage collector). Back-pressure, per partition: resumed when less than `low_bytes` are buffered, paused when more than `high_bytes` have been for
    `pause_dwell_ms`; `max_buffered_bytes` is the bound of all partitions together, and of what lies ready for the sources of partitioned ones. `commit_interval_ms`: how often done positions are
    committed. `revoke_timeout_ms`: how long a partition that is taken away may wait for what is in flight. `wait_close_partition_ms`: how
    long the sub-source of a partition that was taken away goes on, in case it is given back at once, as eager rebalances do. `max_in_flight`: nothing more
    is delivered of a partition while so many of its offsets in hand are acknowledged above one that is not (what is on its way comes on top);
    None: no bound."""

    group_id: str | None = None
    auto_offset_reset: str = "latest"
    poll_interval_ms: int = field(default=50, kw_only=True)
    poll_timeout_ms: int = field(default=50, kw_only=True)
    max_poll_records: int = field(default=1_000, kw_only=True)
    high_bytes: int = field(default=4 << 20, kw_only=True)
    low_bytes: int = field(default=2 << 20, kw_only=True)
    pause_dwell_ms: int = field(default=100, kw_only=True)
    max_buffered_bytes: int = field(default=32 << 20, kw_only=True)
    commit_interval_ms: int = field(default=1_000, kw_only=True)
    commit_timeout_ms: int = field(default=15_000, kw_only=True)
    revoke_timeout_ms: int = field(default=5_000, kw_only=True)
    wait_close_partition_ms: int = field(default=500, kw_only=True)
    max_in_flight: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auto_offset_reset not in _RESETS:
            raise BuildError(f"auto_offset_reset must be one of {', '.join(_RESETS)}, got {self.auto_offset_reset!r}")
        _text_or_none("ConsumerSettings", "group_id", self.group_id)
        at_least("ConsumerSettings", "max_poll_records", self.max_poll_records, 1)
        if self.low_bytes > self.high_bytes:
            raise BuildError(f"low_bytes ({self.low_bytes}) must not exceed high_bytes ({self.high_bytes})")
        if self.max_in_flight is not None:
            at_least("ConsumerSettings", "max_in_flight", self.max_in_flight, 1)

    def with_group_id(self, group_id: str | None) -> ConsumerSettings:
        """Return these settings for another consumer group."""
        return replace(self, group_id=group_id)

    def with_auto_offset_reset(self, auto_offset_reset: str) -> ConsumerSettings:
        """Return these settings with another start for partitions without a committed offset."""
        return replace(self, auto_offset_reset=auto_offset_reset)

    def client_properties(self) -> dict[str, Any]:
        """Return the properties to make the client with."""
        own = {"group.id": self.group_id or "", "auto.offset.reset": self.auto_offset_reset}
        return self.merged(CONSUMER_PROPERTIES, own)


@dataclass(frozen=True)
class ProducerSettings(ClientSettings):
    """How a producer writes.

    `parallelism`: elements on their way at most; more turn into back-pressure. For transactions: `commit_interval_ms` is the time between
    commits, `transaction_timeout_ms` how long one step of a commit may take."""

    parallelism: int = field(default=10_000, kw_only=True)
    commit_interval_ms: int = field(default=100, kw_only=True)
    transaction_timeout_ms: int = field(default=10_000, kw_only=True)
    transactional_id: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("ProducerSettings", "parallelism", self.parallelism, 1)
        _text_or_none("ProducerSettings", "transactional_id", self.transactional_id)
        if self.transactional_id is not None and not self.transactional_id.strip():
            raise BuildError("ProducerSettings: transactional_id must not be empty; None writes without transactions")

    def with_transactional_id(self, transactional_id: str | None) -> ProducerSettings:
        """Return these settings for a transactional producer."""
        return replace(self, transactional_id=transactional_id)

    def client_properties(self) -> dict[str, Any]:
        """Return the properties to make the client with."""
        if self.transactional_id is None:
            return self.merged(PRODUCER_PROPERTIES, {})
        return self.merged(
            {**PRODUCER_PROPERTIES, **TRANSACTIONAL_PROPERTIES}, {"transactional.id": self.transactional_id}
        )


@dataclass(frozen=True)
class CommitterSettings:
    """How offsets in hand are committed: when `max_batch` have gathered, or `max_interval_ms` after the first; at most `parallelism`
    batches at a time. A commit that the broker refuses for now is tried again `max_retries` times, within commit_timeout_ms."""

    max_batch: int = 1_000
    max_interval_ms: int = 10_000
    parallelism: int = 100
    max_retries: int = 10

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
        raise BuildError(f"{who}: {name} must be a text or None, got {type(value).__name__} {value!r}")
