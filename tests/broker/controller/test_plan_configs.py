"""Changing settings: the codes and texts are answers of Apache Kafka 4.1.1 to the same requests."""

from __future__ import annotations

import uuid

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.command import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    Facts,
    Outcome,
    ResourceChange,
)
from streamactors.broker.controller.rules.plan_configs import alter_configs
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    ConfigRecord,
    FeatureLevel,
    PartitionRecord,
    TopicRecord,
)

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
ID = uuid.UUID(int=1)


def facts(**overrides: str) -> Facts:
    records = [
        BrokerRegistration(1, uuid.UUID(int=9), 1),
        TopicRecord("t", ID),
        PartitionRecord(0, ID, (1,), (1,), 1),
        *(ConfigRecord(TOPIC_RESOURCE, "t", name.replace("_", "."), value) for name, value in overrides.items()),
    ]
    image = apply_records(MetadataImage(), records, 9).image
    return Facts(image, BrokerConfig.of(), 1, 1, lambda: ID, 0)


def change(
    given: Facts,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC_RESOURCE,
    name: str = "t",
    replace: bool = False,
) -> tuple[Outcome, dict[str, str]]:
    """Return the outcome, and the resource's settings afterwards."""
    made = tuple(ConfigChange(n, value, operation) for n, operation, value in changes)
    plan = alter_configs(given, AlterConfigs((ResourceChange(kind, name, made, replace),)))
    image = apply_records(given.image, plan.records, 10).image
    return plan.answer[0], dict(image.configs.get((kind, name), {}))


def test_settings_are_set_and_removed_one_by_one() -> None:
    given = facts(retention_ms="1", segment_ms="5")
    assert change(given, ("retention.ms", SET, "2")) == (Outcome(), {"retention.ms": "2", "segment.ms": "5"})
    assert change(given, ("retention.ms", DELETE, None)) == (Outcome(), {"segment.ms": "5"})
    assert change(given, ("flush.ms", DELETE, None)) == (Outcome(), {"retention.ms": "1", "segment.ms": "5"})


def test_the_older_way_replaces_all_of_them() -> None:
    given = facts(retention_ms="1", segment_ms="5")
    assert change(given, ("flush.ms", SET, "7"), replace=True) == (Outcome(), {"flush.ms": "7"})
    assert change(given, replace=True) == (Outcome(), {})


def test_lists_grow_and_shrink_from_the_value_they_have() -> None:
    assert change(facts(), ("cleanup.policy", APPEND, "compact"))[1] == {"cleanup.policy": "delete,compact"}
    given = facts(cleanup_policy="compact,delete")
    assert change(given, ("cleanup.policy", SUBTRACT, "delete"))[1] == {"cleanup.policy": "compact"}
    assert change(given, ("cleanup.policy", APPEND, "delete"))[1] == {"cleanup.policy": "compact,delete"}


def test_a_setting_that_does_not_change_makes_no_record() -> None:
    given = facts(retention_ms="1")
    made = (ConfigChange("retention.ms", "1"),)
    assert alter_configs(given, AlterConfigs((ResourceChange(TOPIC_RESOURCE, "t", made),))).records == []


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("retention.ms", SET, "x")], 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ([("zz", SET, "x")], 40, "Unknown topic config name: zz"),
        ([("zz", DELETE, None)], 0, None),
        ([("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        ([("retention.ms", APPEND, "3")], 40, "Can't APPEND to key retention.ms because its type is not LIST."),
        ([("retention.ms", SET, "3"), ("retention.ms", SET, "4")], 42, "Error due to duplicate config keys"),
        ([("retention.ms", 9, "3")], 42, "Unknown operation type 9"),
        ([("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")], 40, "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)"),
        ([], 0, None),
    ],
)  # fmt: skip
def test_a_topic_setting_answers_as_kafka_does(
    changes: list[tuple[str, int, str | None]], code: int, message: str | None
) -> None:
    assert tuple(change(facts(), *changes)[0]) == (code, message)


@pytest.mark.parametrize(
    ("kind", "name", "setting", "code", "message"),
    [
        (TOPIC_RESOURCE, "none", "retention.ms", 3, "The topic 'none' does not exist."),
        (TOPIC_RESOURCE, "", "retention.ms", 42, "Default topic resources are not allowed."),
        (BROKER_RESOURCE, "1", "log.retention.ms", 0, None),
        (BROKER_RESOURCE, "", "log.retention.ms", 0, None),
        (BROKER_RESOURCE, "1", "num.partitions", 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER_RESOURCE, "2", "log.retention.ms", 102, "No node with id 2 found."),
        (BROKER_RESOURCE, "x", "log.retention.ms", 42, "Node id must be an integer, but it is: x"),
        (3, "x", "a", 42, "Unknown resource type 3"),
    ],
)
def test_a_resource_answers_as_kafka_does(kind: int, name: str, setting: str, code: int, message: str | None) -> None:
    assert tuple(change(facts(), (setting, SET, "5"), kind=kind, name=name)[0]) == (code, message)


def test_a_broker_takes_its_own_settings_only_and_the_controller_those_of_every_broker() -> None:
    image = apply_records(facts().image, [BrokerRegistration(2, uuid.uuid4(), 7)], 10).image
    given = facts()._replace(image=image)
    resource = ResourceChange(BROKER_RESOURCE, "2", (ConfigChange("log.retention.ms", "5", SET),))
    at_the_controller = alter_configs(given, AlterConfigs((resource,)))
    assert at_the_controller.answer == [Outcome()]
    assert len(at_the_controller.records) == 1
    (refused,) = alter_configs(given, AlterConfigs((resource,), asked_broker=1)).answer
    assert refused == (42, "Unexpected broker id, expected 1, but received 2")


def test_a_bad_value_of_a_broker_setting_is_refused() -> None:
    outcome, settings = change(facts(), ("log.retention.ms", SET, "x"), kind=BROKER_RESOURCE, name="1")
    assert outcome == (42, "Invalid value x for configuration log.retention.ms: Not a number of type LONG")
    assert settings == {}


def test_an_unknown_broker_setting_is_kept_and_one_about_security_refused() -> None:
    outcome, settings = change(facts(), ("my.plugin.setting", SET, "1"), kind=BROKER_RESOURCE, name="1")
    assert (outcome[0], settings) == (0, {"my.plugin.setting": "1"})
    outcome, settings = change(facts(), ("ssl.engine.factory.class", SET, "x"), kind=BROKER_RESOURCE, name="1")
    assert (outcome[0], settings) == (40, {})


def test_each_resource_stands_alone_and_appears_once() -> None:
    good = ResourceChange(TOPIC_RESOURCE, "t", (ConfigChange("retention.ms", "1"),))
    bad = ResourceChange(TOPIC_RESOURCE, "u", (ConfigChange("retention.ms", "1"),))
    plan = alter_configs(facts(), AlterConfigs((good, bad)))
    assert [outcome.code for outcome in plan.answer] == [0, 3]
    assert len(plan.records) == 1
    twice = alter_configs(facts(), AlterConfigs((good, good)))
    assert set(twice.answer) == {Outcome(plan.answer[0].code.__class__(42), "Each resource must appear at most once.")}
    assert twice.records == []


def test_validate_only_writes_nothing() -> None:
    good = ResourceChange(TOPIC_RESOURCE, "t", (ConfigChange("retention.ms", "1"),))
    plan = alter_configs(facts(), AlterConfigs((good,), validate_only=True))
    assert (plan.records, plan.answer) == ([], [Outcome()])


@pytest.mark.parametrize("value", ["*", "/data/1", ""])
def test_below_level_30_cordoned_folders_are_refused(value: str) -> None:
    # "Completed updating config for broker 1.", and new partitions went to the folder as before.
    outcome, after = change(facts(), ("cordoned.log.dirs", SET, value), kind=BROKER_RESOURCE, name="1")
    assert outcome.code == ErrorCode.INVALID_CONFIG
    assert "requires metadata.version >= 4.3-IV0" in outcome.message
    assert after == {}


def test_a_controller_that_is_asked_itself_takes_only_fewer_cordoned_folders() -> None:
    # it does not know the folders of a broker; the sentence is Apache Kafka's
    level = [FeatureLevel("metadata.version", 30), ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", "/a,/b")]
    now = facts()._replace(image=apply_records(facts().image, level, 1).image)

    def asked(value: str) -> Outcome:
        resource = ResourceChange(BROKER_RESOURCE, "1", (ConfigChange("cordoned.log.dirs", value, SET),))
        return alter_configs(now, AlterConfigs((resource,), asked_broker=None)).answer[0]

    assert asked("/a") == Outcome()
    assert asked("") == Outcome()
    fewer = "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current configuration value."
    assert asked("/a,/c") == Outcome(ErrorCode.INVALID_CONFIG, fewer)
