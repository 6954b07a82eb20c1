"""Several computations that hold rows of partitions which are being taken away: from where on nothing is in flight."""

from __future__ import annotations

import pytest

from streamactors.kafka.state.changelogs.changelog_provider import Leaving

LEFT, RIGHT = ("s", "left"), ("s", "right")


@pytest.mark.parametrize("meet", [True, False])
def test_all_are_asked_and_the_furthest_or_the_last_one_counts(meet: bool) -> None:
    given_back = {}
    leaving = Leaving(2, given_back.__setitem__, meet=meet)
    leaving.stands({LEFT: (1, 10), RIGHT: (1, 7)})
    assert given_back == {}
    leaving.stands({LEFT: (1, 8), RIGHT: (1, 9)})
    assert given_back == ({"left": (1, 10), "right": (1, 9)} if meet else {"left": (1, 8), "right": (1, 7)})
