"""A cluster whose only data node is a broker of Apache Kafka: its controllers are three of our nodes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from streamactors.broker.launch.storage_format import format_folder
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode

CONTROLLERS = (1, 2, 3)
BROKER = 4


class ApacheDataNode:
    """Started when entered. The controllers are processes with no role but controller."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        addresses = [f"127.0.0.1:{port}" for port in _free_ports(len(CONTROLLERS))]
        voters = ",".join(f"{node_id}@{address}" for node_id, address in zip(CONTROLLERS, addresses, strict=True))
        self._folder = folder
        self._commands = {
            node_id: [
                *(sys.executable, "-m", "streamactors.cli.main", "broker", "--data", str(folder / str(node_id))),
                *("--listen", f"CONTROLLER://{address}", "--set", "process.roles=controller"),
                *("--set", f"node.id={node_id}", "--set", "controller.listener.names=CONTROLLER"),
                *("--set", f"controller.quorum.voters={voters}"),
            ]
            for node_id, address in zip(CONTROLLERS, addresses, strict=True)
        }
        self.broker = ApacheNode(
            folder / str(BROKER), BROKER, "broker", voters=voters, settings=settings, features_off=()
        )
        self._ends = contextlib.ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.address

    def __enter__(self) -> ApacheDataNode:
        for node_id, command in self._commands.items():
            format_folder(self._folder / str(node_id), node_id, CLUSTER_ID)
            log = self._ends.enter_context((self._folder / f"{node_id}.out").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ})
            self._ends.callback(process.wait)
            self._ends.callback(process.kill)
        self.broker.start()
        self._ends.callback(self.broker.kill)
        self.broker.await_broker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()
