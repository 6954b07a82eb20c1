"""A cluster of several nodes closes."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.cluster.node_process import NodeProcess
from streamactors.broker.cluster.reserved_ports import ReservedPorts
from streamactors.broker.cluster.several import SeveralBrokers


def test_the_nodes_of_a_cluster_with_a_temporary_folder_are_killed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One after the other, a node saw the one before it end, and warned of it when nobody had asked for anything but the end.
    all_are_killed = threading.Barrier(3)
    killed: list[int] = []

    def kill(node: Any) -> None:
        all_are_killed.wait(60)
        node.started = False
        killed.append(node.node_id)

    def stop() -> None:
        raise AssertionError("a killed node was stopped, too")

    monkeypatch.setattr(NodeProcess, "kill", kill)
    nodes = {n: SimpleNamespace(node_id=n, started=True, stop=stop) for n in (1, 2, 3)}
    nodes[4] = SimpleNamespace(node_id=4, started=False, stop=stop)
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster: Any = SimpleNamespace(nodes=nodes, _temporary=True, data_folder=folder, _ports=ReservedPorts())
    SeveralBrokers.close(cluster)
    assert sorted(killed) == [1, 2, 3]
    assert not folder.exists()


def test_the_nodes_of_a_kept_folder_are_stopped_one_by_one_the_controller_last(tmp_path: Path) -> None:
    stopped: list[int] = []

    def node(n: int) -> Any:
        return SimpleNamespace(node_id=n, started=n != 3, stop=lambda: stopped.append(n))

    nodes = {n: node(n) for n in (1, 2, 3)}
    cluster: Any = SimpleNamespace(nodes=nodes, _temporary=False, data_folder=tmp_path, _ports=ReservedPorts())
    SeveralBrokers.close(cluster)
    assert stopped == [2, 1]
    assert tmp_path.exists()
