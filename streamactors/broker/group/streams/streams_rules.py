"""The settings of one streams group: its own, within the limits of the broker's, which are the defaults.

Owner: the group component."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.group_settings import STANDBYS, group_number
from streamactors.broker.group.streams.streams_events import StreamsRules


def streams_rules(config: BrokerConfig, own: Mapping[str, str]) -> StreamsRules:
    """Return the rules of a group with these settings of its own."""
    number = partial(group_number, config, own)
    tags = own.get("streams.rack.aware.assignment.tags")
    return StreamsRules(
        max_size=config.group_streams_max_size,
        session_timeout_ms=number("streams.session.timeout.ms"),
        heartbeat_interval_ms=number("streams.heartbeat.interval.ms"),
        assignment_interval_ms=number("streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=number("streams.initial.rebalance.delay.ms"),
        standby_replicas=number(STANDBYS),
        rack_aware_tags=tuple(each.strip() for each in tags.split(",")) if tags else (),
    )
