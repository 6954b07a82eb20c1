"""Three nodes of Apache Kafka as a peer, of the same shape as `Cluster(brokers=3)`: each is a broker and a controller."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient

from benchmarks._apache_kafka import classpath, free_ports, run_tool

READY_S = 120.0


class ApacheCluster:
    """Started when entered; `up_s` is the time until every broker serves clients, without the formatting of the folders."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, count: int = 3, heap: str = "1g") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="apache-cluster-"))
        self.up_s = 0.0
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2 * count)]
        self.addresses = dict(enumerate(addresses[:count], 1))
        self._controllers = dict(enumerate(addresses[count:], 1))
        self.bootstrap_servers = ",".join(self.addresses.values())
        self._heap = heap
        self._settings = settings or {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: process.pid for node_id, process in self._processes.items()}

    def __enter__(self) -> ApacheCluster:
        try:
            self._format()
            begin = time.monotonic()
            for node_id in self.addresses:
                self.start(node_id)
            self._await_brokers(set(self.addresses))
            self.up_s = time.monotonic() - begin
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the nodes and remove their data."""
        for node_id in list(self._processes):
            self.kill(node_id)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self, node_id: int) -> None:
        """End a node's process with SIGKILL."""
        process = self._processes.pop(node_id)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def start(self, node_id: int) -> None:
        """Start a node's process; it serves clients some seconds later."""
        with (self.folder / f"{node_id}.out").open("ab") as output:
            self._processes[node_id] = subprocess.Popen(
                ["java", f"-Xmx{self._heap}", "-cp", classpath(), "kafka.Kafka", str(self._properties(node_id))],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def _properties(self, node_id: int) -> Path:
        return self.folder / f"{node_id}.properties"

    def _format(self) -> None:
        cluster_id = "B" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        voters = ",".join(f"{node_id}@{address}" for node_id, address in self._controllers.items())
        for node_id, address in self.addresses.items():
            settings = {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "listeners": f"PLAINTEXT://{address},CONTROLLER://{self._controllers[node_id]}",
                "log.dirs": str(self.folder / str(node_id)),
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "group.initial.rebalance.delay.ms": "0",
                **self._settings,
            }
            properties = self._properties(node_id)
            properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))

    def _await_brokers(self, wanted: set[int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        give_up = time.monotonic() + READY_S
        while True:
            try:
                if set(admin.list_topics(timeout=2).brokers) == wanted:
                    return
            except Exception as error:
                why: object = error
            else:
                why = "not all brokers have registered"
            if time.monotonic() > give_up:
                raise RuntimeError(f"three nodes of Apache Kafka did not start: {why}; see {self.folder}")
