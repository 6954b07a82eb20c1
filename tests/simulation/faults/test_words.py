"""The words in which a test says when faults strike, and the errors for what cannot be meant."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.simulation import Faults, at, between, every, simulate
from streamactors.simulation.faults.when import gaps


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"crash": 2}, "Faults: crash must be a probability for each second"),
        ({"request_lost": -0.1}, "Faults: request_lost must be a probability from 0"),
        ({"request_lost": True}, "got True"),
        ({"zombie": "often"}, "got 'often'"),
        ({"pauses": "90s..15s"}, "ends before it begins"),
        ({"downtime": "a while"}, "Faults: downtime must be a span"),
        ({"crashes_often": 1}, "there is no fault 'crashes_often'; choose from broker_killed"),
        ({"crash": (0.1, "sometimes")}, "got 'sometimes'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BuildError, match=told.replace("(", r"\(")):
        Faults.none(**changes)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: between("effect", "lunch"), "'lunch' is no moment; choose from start"),
        (lambda: between("effect", "commit", rate=3), "between: rate must be a probability"),
        (lambda: every(0), "longer than nothing"),
        (lambda: at(), "at least one time"),
    ],
)
def test_a_word_that_says_nothing_is_refused(make: Any, told: str) -> None:
    with pytest.raises(BuildError, match=told):
        make()


def test_times_are_given_by_at_every_and_a_probability() -> None:
    dice = random.Random(1)
    assert list(gaps(at("2m", "30s"), dice)) == [30_000, 90_000]
    assert list(islice(gaps(every("1m"), dice), 3)) == [60_000] * 3
    assert list(gaps(0.0, dice)) == []
    by_chance = list(islice(gaps(0.1, dice), 2_000))
    assert 9_000 < sum(by_chance) / len(by_chance) < 10_000, "a tenth of all seconds"


def test_everything_may_be_changed_one_by_one() -> None:
    changed = Faults.everything(crash=0.0, null=0.5)
    assert changed.crashes == (0.0,)
    assert changed.null == 0.5
    assert changed.zombie == Faults.everything().zombie > 0
    assert Faults.none() == Faults()


def test_faults_that_are_none_are_refused_by_a_sentence() -> None:
    with pytest.raises(BuildError, match=r"faults must be Faults, such as .*, got 'everything'"):
        simulate(lambda sim: None, seeds=1, faults="everything")
