"""Networks under test, closed at the end with nothing left in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamactors.broker.network.limits import Limits
from tests.broker.network.network_under_test import FakeRequest, Network


@pytest.fixture
def start() -> Iterator[Callable[..., Network]]:
    made: list[Network] = []

    def make(service: Callable[[FakeRequest], None] = lambda request: None, **limits: Any) -> Network:
        made.append(Network(Limits(**limits), service))
        return made[-1]

    yield make
    for network in made:
        network.close()
