"""The commands of docs/cluster.md: three brokers on three loopback addresses, started by hand."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.cluster.view import View
from streamactors.broker.errors import BrokerError
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.security.client_login import ListenerCredentials
from tests.broker.wire import wait_until


@contextmanager
def broker(folder: Path, address: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with started("broker", "--listen", address, "--data", str(folder), *arguments) as process:
        yield process


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "streamactors.cli.main", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stdout is not None
        process.stdout.close()


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.slow
def test_three_brokers_on_three_addresses_form_a_cluster(tmp_path: Path) -> None:
    port, at_controller = free_port(), free_port()
    joining = (
        "--set",
        "process.roles=broker",
        "--set",
        f"controller.quorum.bootstrap.servers=127.0.0.2:{at_controller}",
    )
    first = ("--listen", f"CONTROLLER://127.0.0.2:{at_controller}", "--set", "controller.listener.names=CONTROLLER")
    addresses = [f"127.0.0.{host}:{port}" for host in (2, 3, 4)]
    with (
        broker(tmp_path / "1", addresses[0], *first, "--set", "node.id=1") as one,
        broker(tmp_path / "2", addresses[1], *joining, "--set", "node.id=2") as two,
        broker(tmp_path / "3", addresses[2], *joining, "--set", "node.id=3") as three,
    ):
        for process in (one, two, three):
            assert "ready" in ready(process)
        view = View(lambda: addresses)
        assert set(view.brokers()) == {1, 2, 3}
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": addresses[2]})
        topic = confluent_kafka.admin.NewTopic("t", 1, 3, config={"min.insync.replicas": "3"})
        admin.create_topics([topic])["t"].result(30)
        producer = confluent_kafka.Producer({"bootstrap.servers": addresses[1]})
        producer.produce("t", b"x", on_delivery=lambda error, _: pytest.fail(str(error)) if error else None)
        assert producer.flush(30) == 0
        assert set(view.partition("t", 0).isr) == {1, 2, 3}


@pytest.mark.slow
def test_the_command_cluster_starts_three_brokers_and_ends_them(tmp_path: Path) -> None:
    port = free_port(in_a_row=3)
    with started("cluster", "--data", str(tmp_path), "--port", str(port)) as process:
        addresses = ready(process).split("ready: ")[1].split(", data")[0].split(",")
        assert addresses == [f"127.0.0.1:{port + each}" for each in range(3)]
        wait_until(lambda: set(View(lambda: addresses).brokers()) == {1, 2, 3}, "all three serve clients")
    assert {each.name for each in tmp_path.iterdir()} == {"1", "2", "3"}


@pytest.mark.slow
def test_three_nodes_enter_each_other_by_their_certificates(tmp_path: Path) -> None:
    authority = str(make_certificates(tmp_path, ("127.0.0.2", "127.0.0.3", "127.0.0.4")) / "ca.pem")
    hosts = [f"127.0.0.{host}" for host in (2, 3, 4)]
    port, at_controller = free_port(), free_port()
    voters = ",".join(f"{node}@{host}:{at_controller}" for node, host in enumerate(hosts, 1))
    cluster_id = new_cluster_id()
    with ExitStack() as stack:
        processes = []
        for node, host in enumerate(hosts, 1):
            format_folder(tmp_path / str(node), node, cluster_id)
            properties = tmp_path / f"{node}.properties"
            properties.write_text(f"""
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:SSL,NODES:SSL
inter.broker.listener.name=NODES
listeners=NODES://{host}:{port},CONTROLLER://{host}:{at_controller}
ssl.client.auth=required
ssl.keystore.location={tmp_path / "server.pem"}
ssl.truststore.location={authority}
default.replication.factor=3
min.insync.replicas=3
log.dirs={tmp_path / str(node)}
""")
            processes.append(stack.enter_context(started("broker", "--config", str(properties))))
        for process in processes:
            assert "ready" in ready(process)
        certificate = str(tmp_path / "server.pem")
        client = {
            "bootstrap.servers": f"{hosts[1]}:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": authority,
            "ssl.certificate.location": certificate,
            "ssl.key.location": certificate,
        }
        failed: list[object] = []
        producer = confluent_kafka.Producer({**client, "acks": "all"})
        producer.produce("t", b"on three nodes", on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(60) == 0
        assert failed == []
        view = View(lambda: [f"{hosts[0]}:{port}"], ListenerCredentials(authority, certificate=certificate))
        assert view.partition("t", 0).isr == view.partition("t", 0).replicas
        with pytest.raises(BrokerError):  # the same without a certificate
            View(lambda: [f"{hosts[0]}:{port}"], ListenerCredentials(authority)).partition("t", 0)
