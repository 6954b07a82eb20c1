"""A cluster of several nodes closes."""

from __future__ import annotations

import gc
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster import node_process
from streamactors.broker.cluster.node_process import NodeProcess
from streamactors.broker.cluster.reserved_ports import ReservedPorts
from streamactors.broker.cluster.several import SeveralBrokers
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.child_process import ChildBroker
from streamactors.broker.launch.embedded import EmbeddedBroker
from tests.actors.eventually import eventually


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


def test_processes_end_when_another_of_the_cluster_cannot_be_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[ChildBroker] = []

    def launch(arguments: Any, *, wait: bool) -> ChildBroker:
        if len(launched) == 2:
            raise OSError("no process can be started")
        launched.append(ChildBroker(arguments, wait=wait))
        return launched[-1]

    monkeypatch.setattr(node_process, "ChildBroker", launch)
    with pytest.raises(OSError, match="no process can be started"):
        Cluster(brokers=3, data=tmp_path).start()
    assert [each.exit_code for each in launched] == [-9, -9]


def test_certificates_go_with_the_cluster() -> None:
    cluster = Cluster(tls=True).start()
    authority = Path(cluster.client_properties()["ssl.ca.location"])
    assert (authority.parent / "server.pem").exists()
    cluster.close()
    assert not authority.parent.exists()
    with pytest.raises(BrokerStartError, match="its certificates with it; make another Cluster to start again"):
        cluster.start()


def test_certificates_of_a_cluster_that_was_never_closed_go_too() -> None:
    # the broker's key stayed on disk
    failing = Cluster(tls=True, config={"num.partitions": "x"})
    assert failing._credentials is not None
    authority = failing._credentials.authority
    assert authority is not None
    with pytest.raises(InvalidSetting, match=r"num\.partitions"):
        failing.start()
    assert authority.exists(), "it may be started again"
    del failing
    eventually(lambda: gc.collect() >= 0 and not authority.parent.exists())


def test_a_fork_leaves_the_certificates_of_its_parent() -> None:
    with Cluster(tls=True) as cluster:
        authority = Path(cluster.client_properties()["ssl.ca.location"])
        child = os.fork()
        if not child:
            cluster.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert authority.exists()


@pytest.mark.parametrize("kept", [True, False], ids=["kept folder", "temporary folder"])
def test_an_interrupted_close_ends_every_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    # A limit of time interrupted the close of a cluster. The nodes that it had not reached ran on, and logged during the next tests.
    cluster = Cluster(brokers=3, data=tmp_path if kept else None).start()
    several = cast(SeveralBrokers, cluster._running)
    children = [node.child for node in several.nodes.values()]

    def interrupted(*of_a_node: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeProcess, "stop", interrupted)
    monkeypatch.setattr(NodeProcess, "kill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    eventually(lambda: [each.exit_code for each in children] == [-9, -9, -9])


def test_an_interrupted_wait_for_a_process_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(process=True).start()
    folder, child = cluster.data_folder, cast(ChildBroker, cluster._running)
    wait = child._process.wait

    def interrupted(timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return wait()

    monkeypatch.setattr(child._process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert child.exit_code is not None
    assert not folder.exists()


def test_an_interrupted_wait_for_the_start_of_a_process_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ChildBroker] = []

    def interrupted(child: ChildBroker, *of_the_answer: Any) -> None:
        started.append(child)
        raise KeyboardInterrupt

    monkeypatch.setattr(ChildBroker, "await_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Cluster(process=True).start()
    assert [each.exit_code for each in started] == [-9]


def test_an_interrupted_close_stops_the_other_parts_of_a_broker_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = set(threading.enumerate())
    cluster = Cluster().start()
    folder, address = cluster.data_folder, cluster.bootstrap_servers
    broker = cast(EmbeddedBroker, cluster._running)._broker
    last = broker._undo[-1]

    def interrupted() -> None:
        last()
        raise KeyboardInterrupt

    broker._undo[-1] = interrupted
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert not folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(tuple(address.split(":")), timeout=1)
    eventually(lambda: set(threading.enumerate()) <= before)
