"""Parts of the broker that have settings of their own: their defaults, and how they come from a configuration."""

from __future__ import annotations

import dataclasses
import math

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.network.limits import Limits


def test_limits_have_the_defaults_of_the_configuration_but_the_sizes_of_socket_buffers() -> None:
    from_config = Limits.of(BrokerConfig.of({}))
    assert (from_config.send_buffer_bytes, from_config.receive_buffer_bytes) == (102_400, 102_400)
    without = dataclasses.replace(from_config, send_buffer_bytes=-1, receive_buffer_bytes=-1)
    assert without == Limits(), "-1 leaves the size of the buffers to the system"


def test_each_limit_comes_from_its_setting() -> None:
    limits = Limits.of(
        BrokerConfig.of(
            {
                "queued.max.request.bytes": 1_000_000_000,
                "socket.request.max.bytes": 200_000_000,
                "connections.max.idle.ms": -1,
                "max.connections": 3,
                "max.connections.per.ip": 2,
                "max.connections.per.ip.overrides": "127.0.0.1:7, 127.0.0.2:8,",
                "max.connection.creation.rate": 4,
                "quota.window.num": 5,
                "quota.window.size.seconds": 6,
                "controller.quota.window.num": 7,
                "controller.quota.window.size.seconds": 8,
                "socket.listen.backlog.size": 9,
            }
        )
    )
    assert (limits.max_in_flight_bytes, limits.max_request_bytes) == (1_000_000_000, 200_000_000)
    assert limits.max_receive_bytes == 400_000_000, "two requests of the largest size"
    assert limits.max_idle_ms == math.inf
    assert (limits.max_connections, limits.max_connections_per_ip, limits.max_connection_rate) == (3, 2, 4)
    assert limits.of_addresses == {"127.0.0.1": 7, "127.0.0.2": 8}
    assert (limits.quota_windows, limits.quota_window_ms, limits.mutation_burst_s) == (5, 6_000, 56.0)
    assert limits.backlog == 9


def test_an_idle_time_of_zero_is_kept_and_only_below_it_there_is_none() -> None:
    assert Limits.of(BrokerConfig.of({"connections.max.idle.ms": 0})).max_idle_ms == 0


def test_rules_of_offsets_have_the_defaults_of_the_configuration() -> None:
    config = BrokerConfig.of({})
    assert OffsetRules() == OffsetRules(config.offsets_retention_minutes * 60_000, config.offset_metadata_max_bytes)
