"""A node's process, without the process: when it may be spoken to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.cluster import node_process
from streamactors.broker.cluster.node_process import NodeProcess
from streamactors.broker.errors import BrokerStartError


class Child:
    """A process that is ready when it is asked."""

    exit_code = None

    def __init__(self, arguments: Any, *, wait: bool = True) -> None:
        self.waited = wait

    def await_ready(self) -> None:
        self.waited = True


def test_a_node_is_alive_when_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Three threads start a node each. The first that was ready told all nodes their links, and another node's start took the answer for its own:
    # KeyError: 'bootstrap_servers'.
    monkeypatch.setattr(node_process, "ChildBroker", Child)
    node = NodeProcess(1, tmp_path, {}, 9092, None)
    node.launch({})
    assert not node.alive
    with pytest.raises(BrokerStartError, match="node 1 is being started already"):
        node.launch({})
    node.await_ready()
    assert node.alive
