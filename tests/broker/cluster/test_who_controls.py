"""Which node is the active controller: the only one is known without asking; of several, a running broker is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.cluster.several import CONTROLLER, SeveralBrokers


@pytest.mark.parametrize(("controllers", "found"), [(1, CONTROLLER), (2, 7), (3, 7)])
def test_of_several_controllers_the_cluster_is_asked(controllers: int, found: int) -> None:
    asked: list[str] = []

    def controller() -> int:
        asked.append("asked")
        return 7

    brokers: Any = SeveralBrokers.__new__(SeveralBrokers)
    brokers._controllers = dict.fromkeys(range(controllers))
    brokers._view = SimpleNamespace(controller=controller)
    assert brokers.controller() == found
    assert bool(asked) == (controllers > 1)
