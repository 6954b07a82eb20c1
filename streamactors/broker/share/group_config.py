"""The settings of one share group: its own (config resource 32, GROUP), or the broker's. Values beyond the broker's limits count as the limit.

Owner: whoever serves the group, who reads it anew for each decision: the settings are dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.group_settings import LATEST, GroupConfigSettings, group_number
from streamactors.broker.metadata.image import SHARE_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import GROUP_RESOURCE
from streamactors.broker.share.partition.in_flight import ShareLimits

FIRST_WITH_DEAD_LETTERS: Final = 2
"""The level of share.version from which on groups have dead letter queues."""


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """Times in milliseconds. `reset` is latest, earliest, or by_duration: and an ISO 8601 duration."""

    limits: ShareLimits
    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int
    reset: str = LATEST
    read_committed: bool = False
    dead_letter_topic: str = ""
    copies_dead_letters: bool = False


def share_group_config(config: BrokerConfig, image: MetadataImage, group_id: str) -> ShareGroupConfig:
    """Return the settings of a group as they are now."""
    own: Mapping[str, str] = image.configs.get((GROUP_RESOURCE, group_id), {})
    declared = GroupConfigSettings.declared()
    number = partial(group_number, config, own)

    def value(name: str) -> Any:
        """Return a setting that brokers do not have."""
        setting = declared[name]
        return setting.parse(own[name]) if name in own else setting.default

    topic = value("errors.deadletterqueue.topic.name")
    limits = ShareLimits(
        record_locks=number("share.partition.max.record.locks"),
        deliveries=number("share.delivery.count.limit"),
        lock_ms=number("share.record.lock.duration.ms"),
        renewal=value("share.renew.acknowledge.enable"),
        dead_letters=bool(topic) and image.features.get(SHARE_VERSION, 0) >= FIRST_WITH_DEAD_LETTERS,
    )
    return ShareGroupConfig(
        limits,
        session_ms=number("share.session.timeout.ms"),
        heartbeat_ms=number("share.heartbeat.interval.ms"),
        assignment_interval_ms=number("share.assignment.interval.ms"),
        reset=value("share.auto.offset.reset"),
        read_committed=value("share.isolation.level") == "read_committed",
        dead_letter_topic=topic,
        copies_dead_letters=value("errors.deadletterqueue.copy.record.enable"),
    )
