"""Where a value comes from, as DescribeConfigs tells it. The expected sources are Apache Kafka 4.1.1's."""

from __future__ import annotations

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.describe import ConfigEntry, ConfigSource, describe_broker, describe_topic

DEFAULT, STATIC, CLUSTER = ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER


def topic(config: BrokerConfig, name: str, **overrides: str) -> ConfigEntry:
    given = {key.replace("_", "."): value for key, value in overrides.items()}
    return next(entry for entry in describe_topic(config, given) if entry.name == name)


def broker(config: BrokerConfig, name: str) -> ConfigEntry:
    return next(entry for entry in describe_broker(config) if entry.name == name)


def test_a_default_value_has_the_source_default() -> None:
    entry = topic(BrokerConfig.of(), "segment.bytes")
    assert (entry.value, entry.source) == ("1073741824", DEFAULT)
    assert [tuple(s) for s in entry.synonyms] == [("log.segment.bytes", "1073741824", DEFAULT)]


def test_a_setting_without_a_default_in_its_finest_unit_has_no_synonyms() -> None:
    entry = topic(BrokerConfig.of(), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("604800000", DEFAULT, ())


def test_an_override_precedes_the_values_that_it_covers() -> None:
    entry = topic(BrokerConfig.of(), "cleanup.policy", cleanup_policy="compact, delete")
    assert (entry.value, entry.source) == ("compact,delete", ConfigSource.DYNAMIC_TOPIC)
    assert [tuple(s) for s in entry.synonyms] == [
        ("cleanup.policy", "compact,delete", ConfigSource.DYNAMIC_TOPIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]


def test_all_layers_of_a_topic_setting_are_listed_highest_first() -> None:
    config = BrokerConfig.of({"message.max.bytes": 1}).with_dynamic(
        {"message.max.bytes": "2"}, {"message.max.bytes": "3"}
    )
    entry = topic(config, "max.message.bytes", max_message_bytes="4")
    assert [s.value for s in entry.synonyms] == ["4", "3", "2", "1", "1048588"]
    assert topic(config, "max.message.bytes").source == ConfigSource.DYNAMIC_BROKER
    assert topic(config, "max.message.bytes").value == "3"


def test_a_coarser_unit_is_converted_and_gives_way_to_a_finer_one() -> None:
    hours = BrokerConfig.of({"log.retention.hours": 2})
    assert topic(hours, "retention.ms").value == "7200000"
    assert topic(BrokerConfig.of({"log.retention.hours": -1}), "retention.ms").value == "-1"
    both = BrokerConfig.of({"log.retention.hours": 2, "log.retention.minutes": 3})
    assert topic(both, "retention.ms").value == "180000"
    assert topic(both, "retention.ms").synonyms == ()
    finest = BrokerConfig.of({"log.retention.minutes": 3}).with_dynamic({"log.retention.ms": "5"}, {})
    assert [(s.name, s.value) for s in topic(finest, "retention.ms").synonyms] == [
        ("log.retention.ms", "5"), ("log.retention.minutes", "3"), ("log.retention.hours", "168")
    ]  # fmt: skip


def test_a_broker_setting_tells_whether_it_can_be_changed_while_running() -> None:
    config = BrokerConfig.of({"num.partitions": 4}).with_dynamic({"log.segment.bytes": "2000000"}, {})
    partitions = broker(config, "num.partitions")
    assert (partitions.value, partitions.source, partitions.read_only) == ("4", STATIC, True)
    segments = broker(config, "log.segment.bytes")
    assert (segments.value, segments.source, segments.read_only) == ("2000000", CLUSTER, False)
    assert [s.source for s in segments.synonyms] == [CLUSTER, DEFAULT]


def test_an_unset_setting_has_no_value_and_no_synonyms() -> None:
    rack = broker(BrokerConfig.of(), "broker.rack")
    assert (rack.value, rack.source, rack.synonyms) == (None, DEFAULT, ())
