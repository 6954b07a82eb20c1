"""The settings of a group: its own, the broker's, the limits."""

from __future__ import annotations

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.describe import ConfigSource, describe_group
from streamactors.broker.config.durations import iso_duration_ms
from streamactors.broker.config.group_settings import check_group_settings, group_number
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import GROUP_RESOURCE
from streamactors.broker.share.group_config import ShareGroupConfig, share_group_config

BROKER = {"group.share.record.lock.duration.ms": 20_000}


def _config(**own: str) -> ShareGroupConfig:
    settings = {name.replace("_", "."): value for name, value in own.items()}
    return share_group_config(BrokerConfig.of(BROKER), MetadataImage(configs={(GROUP_RESOURCE, "g"): settings}), "g")


def test_a_group_without_settings_has_the_brokers() -> None:
    config = _config()
    assert (config.limits.lock_ms, config.limits.deliveries, config.session_ms) == (20_000, 5, 45_000)
    assert (config.reset, config.read_committed, config.limits.renewal) == ("latest", False, True)


def test_a_groups_own_settings_count_up_to_the_brokers_limits() -> None:
    config = _config(
        share_record_lock_duration_ms="15000",
        share_delivery_count_limit="99",
        share_auto_offset_reset="earliest",
        share_isolation_level="read_committed",
        share_renew_acknowledge_enable="false",
    )
    assert (config.limits.lock_ms, config.limits.deliveries, config.limits.renewal) == (15_000, 10, False)
    assert (config.reset, config.read_committed) == ("earliest", True)


@pytest.mark.parametrize(
    ("name", "own", "counts"),
    [
        ("consumer.session.timeout.ms", None, 45_000),
        ("consumer.session.timeout.ms", "50000", 50_000),
        ("consumer.session.timeout.ms", "60001", 60_000),
        ("share.delivery.count.limit", "1", 2),
        ("streams.num.standby.replicas", "3", 2),
        ("streams.initial.rebalance.delay.ms", None, 3_000),
        ("streams.initial.rebalance.delay.ms", "90000", 90_000),
    ],
)
def test_the_nearest_limit_of_the_broker_counts_for_a_number_beyond_it(name: str, own: str | None, counts: int) -> None:
    assert group_number(BrokerConfig.of(), {} if own is None else {name: own}, name) == counts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share.delivery.count.limit": "11"}, "share.delivery.count.limit must be in the range 2 to 10 inclusive."),
        ({"share.nothing": "1"}, "Unknown group config name: share.nothing"),
        ({"share.auto.offset.reset": "none"}, "either 'earliest', 'latest' or of the format"),
        ({"share.auto.offset.reset": "by_duration:soon"}, "either 'earliest', 'latest' or of the format"),
        ({"share.isolation.level": "some"}, "read_committed"),
    ],
)
def test_a_setting_that_a_group_cannot_have_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        check_group_settings(BrokerConfig.of(), "g", settings)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_session_must_be_longer_than_the_interval_of_heartbeats() -> None:
    config = BrokerConfig.of({"group.share.min.session.timeout.ms": 1, "group.share.min.heartbeat.interval.ms": 1})
    with pytest.raises(Refusal, match=r"share.session.timeout.ms must be greater than share.heartbeat.interval.ms"):
        check_group_settings(config, "g", {"share.session.timeout.ms": "4000"})
    check_group_settings(config, "g", {"share.session.timeout.ms": "4000", "share.heartbeat.interval.ms": "3999"})


def test_there_are_no_settings_of_all_groups() -> None:
    with pytest.raises(Refusal, match="Default group resources are not allowed"):
        check_group_settings(BrokerConfig.of(), "", {})


def test_a_description_says_where_each_value_comes_from() -> None:
    found = {
        each.name: each for each in describe_group(BrokerConfig.of(BROKER), {"share.auto.offset.reset": "earliest"})
    }
    reset, lock = found["share.auto.offset.reset"], found["share.record.lock.duration.ms"]
    assert (reset.value, reset.source) == ("earliest", ConfigSource.GROUP)
    assert (lock.value, lock.source) == ("20000", ConfigSource.STATIC_BROKER)
    assert found["share.session.timeout.ms"].source is ConfigSource.DEFAULT


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT1M", 86_460_000),
        ("PT1.5S", 1_500),
        ("PT" + 400 * "9" + "H", None),
        ("P", None),
        ("1h", None),
        ("PT", None),
        ("", None),
    ],
)
def test_durations_are_read_as_java_writes_them(text: str, ms: int | None) -> None:
    assert iso_duration_ms(text) == ms
