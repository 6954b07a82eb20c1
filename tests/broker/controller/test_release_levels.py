"""With which levels a cluster begins. The table is Apache Kafka's; tests/differential compares the two."""

from __future__ import annotations

import pytest

from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.controller.rules.release_levels import (
    LEVELS,
    default_levels,
    first_features,
    level_of_release,
    levels_of,
)
from streamactors.broker.metadata.metadata_record import ConfigRecord, FeatureLevel


@pytest.mark.parametrize(
    ("release", "level"),
    [("4.4", 33), ("4.4.0", 33), ("4.4-IV0", 31), ("4.3", 30), ("3.7", 19), ("3.9.1", 21), ("3.3-IV3", 7)],
)
def test_a_release_is_its_newest_level(release: str, level: int) -> None:
    assert level_of_release(release) == level


@pytest.mark.parametrize("release", ["4.9", "4", "IV3", "4.4-IV9", "", "3.3-IV2"])
def test_an_unknown_release_is_refused_and_the_error_names_the_others(release: str) -> None:
    with pytest.raises(ValueError, match=r"choose one of 3\.3, 3\.4.*4\.4"):
        level_of_release(release)


def test_a_cluster_has_no_feature_that_its_nodes_do_not_support() -> None:
    most = {each.name: each.max_level for each in SUPPORTED}
    assert set(LEVELS.values()) == set(range(7, 34))
    for level in LEVELS.values():
        assert all(each <= most[name] for name, each in default_levels(level).items())
    assert levels_of(19) == {"metadata.version": 19}
    assert levels_of(33).keys() == {each.name for each in SUPPORTED}


def test_a_folder_that_nobody_formatted_begins_with_the_newest_levels_and_a_formatted_one_with_its_own() -> None:
    newest = first_features([FeatureLevel("share.version", 0)], 2)
    assert newest[0] == FeatureLevel("metadata.version", 33)  # before those that need it
    assert newest.count(FeatureLevel("share.version", 0)) == 1
    assert FeatureLevel("share.version", 2) not in newest
    assert newest[-1] == ConfigRecord(4, "", "min.insync.replicas", "2")
    assert first_features([FeatureLevel("metadata.version", 19)], 2) == [FeatureLevel("metadata.version", 19)]
