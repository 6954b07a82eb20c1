"""Settings of one group (config resource 32, GROUP). Those that are not set are the broker's.

Owner: AlterConfigs, DescribeConfigs, and whoever serves groups. Names, limits and error texts: Apache Kafka's GroupConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.checks import Check, at_least, one_of
from streamactors.broker.config.declare import boolean, integer, text
from streamactors.broker.config.durations import iso_duration_ms
from streamactors.broker.config.setting import INT_MAX, InvalidSetting, Settings
from streamactors.broker.errors import ErrorCode, Refusal

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
STANDBYS: Final = "streams.num.standby.replicas"


def reset_duration_ms(reset: str) -> int | None:
    """Return the milliseconds of `by_duration:PT1H`, None for latest and earliest and for a string that is none of them."""
    return iso_duration_ms(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None


def _reset_complaint(value: str) -> str | None:
    if value in (LATEST, EARLIEST) or reset_duration_ms(value) is not None:
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. "
        "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


class GroupConfigSettings(Settings):
    """The settings of one group."""

    __slots__ = ()

    consumer_assignment_interval_ms = integer(1_000, "Least time between two target assignments.", at_least(0))
    consumer_heartbeat_interval_ms = integer(5_000, "Interval of the heartbeats of members.", at_least(1))
    consumer_session_timeout_ms = integer(45_000, "A member without a heartbeat for this time is removed.", at_least(1))
    errors_deadletterqueue_copy_record_enable = boolean(
        False, "Whether a record in the dead letter queue has the key and the value of the original."
    )
    errors_deadletterqueue_topic_name = text(
        "", "The topic to which a share group writes records that it gives up; empty: none. Needs share.version 2."
    )
    share_assignment_interval_ms = integer(1_000, "Least time between two assignments of the share group.", at_least(0))
    share_auto_offset_reset = text(
        LATEST,
        "Where a share partition begins that was never fetched: latest, earliest, or by_duration:PT1H for the records of the last hour.",
        Check("latest, earliest, by_duration:DURATION", _reset_complaint),
    )
    share_delivery_count_limit = integer(
        5, "How often a record is delivered at most; then it is archived.", at_least(1)
    )
    share_heartbeat_interval_ms = integer(5_000, "Interval of the heartbeats of members.", at_least(1))
    share_isolation_level = text(
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    )
    share_partition_max_record_locks = integer(
        2_000, "Most records of a share partition that are in flight.", at_least(1)
    )
    share_record_lock_duration_ms = integer(
        30_000, "How long a member may work on a record before it is delivered again.", at_least(1)
    )
    share_renew_acknowledge_enable = boolean(True, "Whether members may renew the locks of records.")
    share_session_timeout_ms = integer(45_000, "A member without a heartbeat for this time is removed.", at_least(1))
    streams_assignment_interval_ms = integer(
        1_000, "Least time between two assignments of the streams group.", at_least(0)
    )
    streams_heartbeat_interval_ms = integer(5_000, "Interval of the heartbeats of members.", at_least(1))
    streams_initial_rebalance_delay_ms = integer(
        3_000, "How long a new streams group waits for more members before its first assignment.", at_least(0)
    )
    streams_num_standby_replicas = integer(0, "Standby replicas of each task.", at_least(0))
    streams_session_timeout_ms = integer(45_000, "A member without a heartbeat for this time is removed.", at_least(1))


_LIMITED: Final = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.assignment.interval.ms",
)
"""Numbers that the broker limits: group.KIND.min.X and group.KIND.max.X."""


def group_limits(config: BrokerConfig, name: str) -> tuple[int, int]:
    """Return the lowest and the highest value that the broker allows for a number of a group."""
    if name == STANDBYS:
        return 0, config.group_streams_max_standby_replicas
    if name not in _LIMITED:
        return 0, INT_MAX
    kind, _, rest = name.partition(".")
    stem = rest.replace(".", "_")
    low: int = getattr(config, f"group_{kind}_min_{stem}")
    high: int = getattr(config, f"group_{kind}_max_{stem}")
    return low, high


def group_number(config: BrokerConfig, own: Mapping[str, str], name: str) -> int:
    """Return a number of a group: its own, else the broker's. The broker's limits may have moved since a group's own number was set: the
    nearest one counts then."""
    given = own.get(name)
    if given is None:
        of_broker: int = getattr(config, f"group_{name.replace('.', '_')}")
        return of_broker
    low, high = group_limits(config, name)
    return max(low, min(int(given), high))


def broker_default(config: BrokerConfig, name: str) -> str | None:
    """Return the broker's value for a setting that a group does not have, None if brokers have no such setting."""
    setting = config.declared().get(f"group.{name}")
    return None if setting is None else setting.format(config.values.get(setting.name, setting.default))


def check_group_settings(config: BrokerConfig, group_id: str, overrides: Mapping[str, str]) -> None:
    """Raise Refusal unless a group can have these settings, alone and together."""
    if not group_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    declared = GroupConfigSettings.declared()
    for name, value in overrides.items():
        if name not in declared:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            parsed = declared[name].parse(value)
        except InvalidSetting as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
        if name in _LIMITED:
            low, high = group_limits(config, name)
            if not low <= parsed <= high:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} must be in the range {low} to {high} inclusive.")
    if overrides.get(DEAD_LETTER_TOPIC, "").startswith("__"):
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")
    _check_standbys(config, overrides)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session in overrides or heartbeat in overrides:
            longest = int(overrides.get(session) or broker_default(config, session) or 0)
            if longest <= int(overrides.get(heartbeat) or broker_default(config, heartbeat) or 0):
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def _check_standbys(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    most = config.group_streams_max_standby_replicas
    if int(overrides.get(STANDBYS, 0)) > most:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{STANDBYS} must be less than or equal to {most}")
