"""The settings of one consumer group: its own, within the limits of the broker's, which are the defaults.

Owner: the group component."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.group_settings import group_number
from streamactors.broker.group.consumer.consumer_events import ConsumerRules, MigrationPolicy


def consumer_rules(config: BrokerConfig, own: Mapping[str, str]) -> ConsumerRules:
    """Return the rules of a group with these settings of its own."""
    number = partial(group_number, config, own)
    return ConsumerRules(
        max_size=config.group_consumer_max_size,
        session_timeout_ms=number("consumer.session.timeout.ms"),
        heartbeat_interval_ms=number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=number("consumer.assignment.interval.ms"),
        assignors=config.group_consumer_assignors,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        migration=MigrationPolicy(config.group_consumer_migration_policy),
        classic_max_size=config.group_max_size,
    )
