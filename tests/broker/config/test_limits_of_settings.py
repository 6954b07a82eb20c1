"""The limits of every setting: the first and the last value are taken, and the values beside them are refused in Kafka's words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.checks import HOSTS_WITH_NUMBERS, at_least, between, each_of, one_of, only
from streamactors.broker.config.setting import InvalidSetting, Setting, SettingType
from streamactors.broker.config.topic_settings import GZIP_LEVELS, THROTTLED_REPLICAS, TopicSettings

DECLARED: dict[str, Setting[Any]] = {**BrokerConfig.declared(), **TopicSettings.declared()}
BITS = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}
BOUNDED = {
    name: (setting, int(found[1]), int(found[2]) if found[2] else (1 << (BITS[setting.kind] - 1)) - 1)
    for name, setting in DECLARED.items()
    if setting.kind in BITS and (found := re.fullmatch(r"(?:at least )?(-?\d+)(?: to (-?\d+))?", setting.check.limits))
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_number_is_taken_from_its_least_to_its_largest_value(name: str) -> None:
    setting, low, high = BOUNDED[name]
    assert [setting.parse(str(each)) for each in (low, high)] == [low, high]
    lowest, highest = -(1 << (BITS[setting.kind] - 1)), (1 << (BITS[setting.kind] - 1)) - 1
    if low > lowest:
        with pytest.raises(InvalidSetting, match=re.escape(f"{name}: Value must be at least {low}")):
            setting.parse(str(low - 1))
    if high < highest:
        with pytest.raises(InvalidSetting, match=re.escape(f"{name}: Value must be no more than {high}")):
            setting.parse(str(high + 1))
    for outside in (lowest - 1, highest + 1):
        with pytest.raises(InvalidSetting, match=f"Not a number of type {setting.kind.name}"):
            setting.parse(str(outside))


def test_most_numbers_have_limits() -> None:
    assert len(BOUNDED) > 90


@pytest.mark.parametrize(
    ("check", "taken", "refused"),
    [
        (at_least(3), [3, 4], {2: "Value must be at least 3"}),
        (between(3, 5), [3, 4, 5], {2: "Value must be at least 3", 6: "Value must be no more than 5"}),
        (one_of("a", "b"), ["a", "b"], {"c": "String must be one of: a, b"}),
        (each_of("a", "b"), [(), ("a",), ("b", "a")], {("a", "c"): "String must be one of: a, b"}),
        (only(7, "there is no other", at_least(5)), [7], {8: "there is no other", 4: "Value must be at least 5"}),
        (
            HOSTS_WITH_NUMBERS,
            ["", "a:1", " a:1 , ::1:22,"],
            {"a": "'a' is not host:number", "a:1,:2": "':2' is not host:number"},
        ),
        (GZIP_LEVELS, [-1, 1, 9], dict.fromkeys((-2, 0, 10), "Value must be between 1 and 9 or equal to -1")),
        (THROTTLED_REPLICAS, [(), ("*",), ("0:1", "10:22")], {}),
    ],
)
def test_a_check_takes_what_fits_and_says_what_is_wrong(check: Any, taken: list[Any], refused: dict[Any, str]) -> None:
    assert [check.complaint(each) for each in taken] == [None] * len(taken)
    assert {each: check.complaint(each) for each in refused} == refused


@pytest.mark.parametrize("wrong", [("0",), ("0:1", "x"), ("*", "0:"), ("0:1:2",), ("**",)])
def test_throttled_replicas_are_pairs_of_numbers_or_a_star(wrong: tuple[str, ...]) -> None:
    said = THROTTLED_REPLICAS.complaint(wrong)
    assert said is not None
    assert said.startswith(f"{','.join(wrong)} must be the literal '*' or a list of replicas")


def test_what_one_value_may_be_is_shown_in_the_limits() -> None:
    assert only(False, "it is not there").limits == "only false: it is not there"
    assert only((), "it is not there").limits == "only empty: it is not there"
    assert only(("a", "b"), "why").limits == "only a,b: why"
    assert only(-2, "why").limits == "only -2: why"
