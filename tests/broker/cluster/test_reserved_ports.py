"""The ports of the nodes of a cluster."""

from __future__ import annotations

import os
import random
import resource
import socket
from collections.abc import Iterator

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster import reserved_ports
from streamactors.broker.cluster.node_process import NodeProcess
from streamactors.broker.cluster.reserved_ports import HOST, ReservedPorts, free_port
from streamactors.broker.errors import BrokerStartError
from tests.own_process import own_process


@pytest.fixture
def six_ports(monkeypatch: pytest.MonkeyPatch) -> range:
    """No other ports can be chosen."""
    first = free_port(in_a_row=6)
    monkeypatch.setattr(reserved_ports, "_RANGE", range(first, first + 6))
    return range(first, first + 6)


@pytest.fixture
def ports() -> Iterator[ReservedPorts]:
    made = ReservedPorts()
    yield made
    made.close()


def listening(port: int) -> socket.socket:
    """Listen as a broker does."""
    return socket.create_server((HOST, port))


def test_processes_that_seed_random_alike_choose_ports_of_their_own() -> None:
    # pytest-randomly seeds each process of pytest-xdist alike before each test: two clusters began at the same port at the same time.
    chosen = set()
    for _ in range(20):
        random.seed(7)
        chosen.add(free_port())
    assert len(chosen) > 10


def test_no_port_is_chosen_twice(six_ports: range, ports: ReservedPorts) -> None:
    assert {ports.reserve() for _ in six_ports} == set(six_ports)
    for _ in range(2):  # neither by this object nor by another
        with pytest.raises(BrokerStartError, match=f"no free port was found between {six_ports.start}"):
            ports.reserve()
        with pytest.raises(BrokerStartError, match="no free port"):
            free_port()


def test_ports_of_others_are_not_chosen(six_ports: range) -> None:
    assert {free_port(six_ports[1:]) for _ in range(10)} == {six_ports[0]}


def test_ports_in_a_row_are_all_free(six_ports: range, ports: ReservedPorts) -> None:
    with listening(six_ports[2]):
        assert ports.reserve(in_a_row=3) == six_ports[3]
        with pytest.raises(BrokerStartError, match="no free port"):
            ports.reserve(in_a_row=3)
        assert ports.reserve(in_a_row=2) == six_ports[0]


def test_a_broker_listens_on_a_reserved_port_again_and_again(ports: ReservedPorts) -> None:
    port = ports.reserve()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))
        with listening(port) as broker:
            with socket.create_connection((HOST, port)) as client, broker.accept()[0] as accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"


def test_closing_gives_the_ports_back(six_ports: range, ports: ReservedPorts) -> None:
    for _ in six_ports:
        ports.reserve()
    ports.close()
    assert free_port() in six_ports


def test_a_system_that_lets_nobody_listen_on_a_reserved_port(
    six_ports: range, ports: ReservedPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserved_ports, "_lets_listen", lambda address: False)
    assert {ports.reserve() for _ in six_ports} == set(six_ports)
    for port in six_ports:
        with socket.socket() as strict:
            strict.bind((HOST, port))  # refused while another socket is bound there
    with pytest.raises(BrokerStartError, match="no free port"):
        ports.reserve()


def test_a_cluster_takes_each_port_once(six_ports: range) -> None:
    # Nodes chose their ports one by one, and two of a cluster chose the same: "port 23085 is in use", once in about 800 starts of three brokers.
    with Cluster(brokers=3) as cluster:
        cluster.kill(2)
        with pytest.raises(BrokerStartError, match="no free port"):
            free_port()  # the port of the killed node is not free for others
        cluster.start(2)
        cluster.create_topic("there")
    assert free_port() in six_ports


def test_controllers_take_none_of_the_ports_that_the_brokers_were_given(six_ports: range) -> None:
    with Cluster(brokers=3, port=six_ports[0]) as cluster:
        assert cluster.bootstrap_servers == ",".join(f"{HOST}:{port}" for port in six_ports[:3])


@pytest.mark.expects_exit_code(2)
def test_a_cluster_that_does_not_start_gives_its_ports_back(six_ports: range) -> None:
    with pytest.raises(BrokerStartError, match=r"num\.partitions"):
        Cluster(brokers=3, config={"num.partitions": "x"}).start()
    assert free_port() in six_ports


def test_ports_are_given_back_although_a_node_cannot_be_stopped(
    six_ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(brokers=3).start()
    folder, kill = cluster.data_folder, NodeProcess.kill

    def interrupted(node: NodeProcess) -> None:
        kill(node)
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeProcess, "kill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert free_port() in six_ports
    assert not folder.exists()


@own_process
def test_a_process_without_descriptors_says_so(ports: ReservedPorts) -> None:
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, high))
    try:
        with pytest.raises(BrokerStartError, match=r"Too many open files; raise the limit of open files"):
            ports.reserve(in_a_row=4)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, high))
    assert ports.reserve() > 0
