"""Limits of the network, with Kafka's names where Kafka has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.quotas.connection_rates import addresses_of

_IN_FLIGHT_BYTES: Final = 512 << 20
_RECEIVE_BYTES: Final = 256 << 20
_BESIDE_RECORDS: Final = 1 << 20
MOST_DESCRIPTORS: Final = 1 << 20
SEND_ABOVE: Final = 64 << 10
"""Bytes of answers that are gathered before they are sent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of connections. Sizes in bytes, times in milliseconds."""

    max_request_bytes: int = 104_857_600
    max_in_flight: int = 64
    """Requests of one connection in service. 1 means one after the other, as in Apache Kafka."""
    max_in_flight_bytes: int = _IN_FLIGHT_BYTES
    """Requests in service over all connections, without those that brokers send to each other; above it no further request is read."""
    max_answer_bytes: int = (100 << 20) + _BESIDE_RECORDS
    """The largest answer. Fetch has the largest ones: a first batch that is larger than fetch.max.bytes is sent whole."""
    max_receive_bytes: int = _RECEIVE_BYTES
    """Buffers of partly received requests over all connections; above it a connection waits for a buffer."""
    stalled_frame_ms: float = 60_000
    """A connection whose partly received request gets no byte for this time is closed."""
    max_idle_ms: float = 600_000
    """A connection without a request for this time is closed; infinite means never."""
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    of_addresses: Mapping[str, int] = field(default_factory=dict)
    """The most connections from single addresses, in place of `max_connections_per_ip`."""
    max_connection_rate: int = 2**31 - 1
    """New connections in a second, from all addresses."""
    quota_windows: int = 11
    quota_window_ms: float = 1_000
    mutation_burst_s: float = 11.0
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50

    @property
    def max_output_bytes(self) -> int:
        """The answers of a connection whose client does not read: those that were gathered, one more, and those of its requests in service."""
        return SEND_ABOVE + (self.max_in_flight + 1) * self.max_answer_bytes

    @property
    def max_in_service(self) -> int:
        """Requests in service of all connections. Each connection has a descriptor, and no system has more than a million for a process."""
        return MOST_DESCRIPTORS * self.max_in_flight

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """Return the limits of a broker configuration."""
        queued = config.queued_max_request_bytes
        largest = config.socket_request_max_bytes
        return cls(
            max_request_bytes=largest,
            max_in_flight=config.max_in_flight_requests if config.pipelining else 1,
            max_in_flight_bytes=queued if queued > 0 else _IN_FLIGHT_BYTES,
            max_answer_bytes=max(config.fetch_max_bytes, largest) + _BESIDE_RECORDS,
            max_receive_bytes=max(_RECEIVE_BYTES, 2 * largest),
            max_idle_ms=math.inf if config.connections_max_idle_ms < 0 else config.connections_max_idle_ms,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            of_addresses=_by_address(config.max_connections_per_ip_overrides),
            max_connection_rate=config.max_connection_creation_rate,
            quota_windows=config.quota_window_num,
            quota_window_ms=config.quota_window_size_seconds * 1_000,
            mutation_burst_s=float(config.controller_quota_window_num * config.controller_quota_window_size_seconds),
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            backlog=config.socket_listen_backlog_size,
        )


def _by_address(overrides: str) -> dict[str, int]:
    """Return max.connections.per.ip.overrides by address."""
    limits = {}
    for entry in filter(None, map(str.strip, overrides.split(","))):
        host, _, number = entry.rpartition(":")
        limits.update(dict.fromkeys(addresses_of(host.strip()), int(number)))
    return limits
