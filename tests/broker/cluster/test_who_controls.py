"""Which node is the active controller: the only one is known without asking; of several, a running broker is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.cluster.several import CONTROLLER, SeveralBrokers
from streamactors.broker.errors import BrokerStartError


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


def test_only_a_node_that_exists_can_be_slow() -> None:
    told: list[str] = []
    brokers: Any = SeveralBrokers.__new__(SeveralBrokers)
    brokers.nodes, brokers._slow_ms, brokers._tell_links = {2: "node"}, {}, lambda: told.append("links")
    with pytest.raises(BrokerStartError, match="9"):
        brokers.slow(9, 5.0)
    brokers.slow(2, 5.0)
    assert (brokers._slow_ms, told) == ({2: 5.0}, ["links"])
