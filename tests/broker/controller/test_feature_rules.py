"""Levels of features: which changes every node takes, and the texts of the others, which are Apache Kafka's."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.rules.elr_rules import ELR_VERSION
from streamactors.broker.controller.rules.feature_rules import (
    SAFE_DOWNGRADE,
    SUPPORTED,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    UpdateFeatures,
    update_features,
)
from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    ControllerRegistration,
    Feature,
    FeatureLevel,
)
from tests.broker.controller.clusters import after, cluster, facts

NAME = "metadata.version"


def image(level: int = 19, supported: int = 33) -> MetadataImage:
    broker = BrokerRegistration(
        2, uuid.UUID(int=2), 12, features=(Feature(NAME, 7, supported), Feature("kraft.version", 0, 1))
    )
    return after(cluster(), [FeatureLevel(NAME, level), broker])


def test_every_node_must_support_a_level() -> None:
    made = update_features(facts(image()), UpdateFeatures((FeatureUpdate(NAME, 33),)))
    assert made.records == [FeatureLevel(NAME, 33)]
    assert made.answer.code == ErrorCode.NONE
    made = update_features(facts(image()), UpdateFeatures((FeatureUpdate(NAME, 33),), validate_only=True))
    assert (made.records, made.answer.code) == ([], ErrorCode.NONE)
    made = update_features(facts(image(supported=20)), UpdateFeatures((FeatureUpdate(NAME, 33),)))
    assert made.records == []
    assert made.answer.message.endswith(
        "Invalid update version 33 for feature metadata.version. Broker 2 only supports versions 7-20"
    )


@pytest.mark.parametrize("turn", [1, -1])
def test_all_features_of_a_release_are_raised_by_one_command_in_any_order(turn: int) -> None:
    # eligible.leader.replicas.version needs metadata.version 23, and Apache Kafka's tool asks for both at once
    broker = BrokerRegistration(2, uuid.UUID(int=2), 12, features=SUPPORTED)
    old = after(cluster(), [FeatureLevel(NAME, 19), broker])
    wanted = default_levels()
    updates = tuple(FeatureUpdate(*each) for each in wanted.items())[::turn]
    made = update_features(facts(old), UpdateFeatures(updates))
    assert made.answer == Outcome()
    assert after(old, made.records).features == {
        name: level for name, level in wanted.items() if name != "kraft.version"
    }
    back = UpdateFeatures((FeatureUpdate(NAME, 22, SAFE_DOWNGRADE),))
    refused = update_features(facts(after(old, [FeatureLevel(NAME, 29), FeatureLevel(ELR_VERSION, 1)])), back)
    assert refused.answer.code == ErrorCode.INVALID_UPDATE_VERSION


def test_the_quorum_says_whether_its_log_can_name_the_voters() -> None:
    update = UpdateFeatures((FeatureUpdate("kraft.version", 1),))
    now = facts(image())
    assert update_features(now, update) == ([], Outcome())  # the quorum writes control records instead
    made = update_features(now._replace(kraft_obstacle=lambda: "controller 2 is silent"), update)
    assert made.answer.code == ErrorCode.INVALID_UPDATE_VERSION
    assert made.answer.message.endswith("because controller 2 is silent.")
    back = UpdateFeatures((FeatureUpdate("kraft.version", 0, SAFE_DOWNGRADE),))
    made = update_features(now._replace(kraft_version=1), back)
    assert made.answer.message.endswith(
        "kraft.version cannot be downgraded: the metadata log names its voters already."
    )


def test_controllers_count_too() -> None:
    old = ControllerRegistration(9, uuid.UUID(int=9), features=(Feature(NAME, 7, 21),))
    made = update_features(facts(after(image(), [old])), UpdateFeatures((FeatureUpdate(NAME, 33),)))
    assert "Controller 9 only supports versions 7-21" in made.answer.message


@pytest.mark.parametrize(
    ("level", "update", "text"),
    [
        (19, FeatureUpdate(NAME, 34), "Local controller 1 only supports versions 7-33"),
        (19, FeatureUpdate("foo", 1), "Local controller 1 does not support this feature."),
        (19, FeatureUpdate("foo", 0), "Feature foo not found."),
        (19, FeatureUpdate("group.version", 2), "Local controller 1 only supports versions 0-1"),
        (19, FeatureUpdate(NAME, -1), "A feature version cannot be less than 0."),
        (19, FeatureUpdate(NAME, 18), "without setting the upgrade type to either safe or unsafe downgrade."),
        (19, FeatureUpdate(NAME, 20, SAFE_DOWNGRADE), "Can't downgrade to a newer version."),
        (19, FeatureUpdate(NAME, 20, 9), "The controller does not support the given upgrade type."),
        (19, FeatureUpdate(NAME, 7, SAFE_DOWNGRADE), "because it might delete metadata information."),
        (19, FeatureUpdate(NAME, 7, UNSAFE_DOWNGRADE), "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_other_changes_are_refused_in_kafkas_words(level: int, update: FeatureUpdate, text: str) -> None:
    made = update_features(facts(image(level)), UpdateFeatures((update,)))
    assert (made.records, made.answer.code) == ([], ErrorCode.INVALID_UPDATE_VERSION)
    assert text in made.answer.message


@pytest.mark.parametrize(
    ("now", "lowest"),
    [(33, 33), (32, 32), (31, 30), (29, 23), (22, 17), (16, 15), (14, 14), (13, 13), (12, 11), (10, 8), (7, 7)],
)
def test_a_level_goes_down_to_the_last_one_that_changed_records(now: int, lowest: int) -> None:
    # 27 to 25 was refused. These are the levels of Apache Kafka 4.4 that change records; those between them do not.
    def down(level: int) -> Any:
        return update_features(facts(image(now)), UpdateFeatures((FeatureUpdate(NAME, level, SAFE_DOWNGRADE),)))

    for level in range(lowest, now):
        assert down(level).records == [FeatureLevel(NAME, level)]
    if lowest > 7:
        assert "because it might delete metadata information." in down(lowest - 1).answer.message


def test_a_level_without_records_of_its_own_goes_down_again_and_one_error_refuses_all() -> None:
    down = FeatureUpdate(NAME, 18, SAFE_DOWNGRADE)
    assert update_features(facts(image()), UpdateFeatures((down,))).records == [FeatureLevel(NAME, 18)]
    made = update_features(facts(image()), UpdateFeatures((FeatureUpdate(NAME, 20, UPGRADE), FeatureUpdate("foo", 1))))
    assert made.records == []
