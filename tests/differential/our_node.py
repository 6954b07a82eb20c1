"""One of our brokers in a cluster whose controllers are Apache Kafka's: a process that can be killed, paused and started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from streamactors.broker import Cluster
from tests.differential.apache_kafka.broker import _free_ports


class OurNode:
    """A broker process on a folder and a port of its own."""

    def __init__(
        self, folder: Path, node_id: int, controllers: str, settings: dict[str, str | int] | None = None
    ) -> None:
        self.folder = folder
        self.node_id = node_id
        self.port = _free_ports(1)[0]
        self.address = f"127.0.0.1:{self.port}"
        self._settings = {
            "node.id": node_id,
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": controllers,
            **(settings or {}),
        }
        self._cluster: Cluster | None = None

    def start(self) -> None:
        """Start the process; it is unfenced on return."""
        self._cluster = Cluster(process=True, data=self.folder, listen=self.address, config=self._settings)
        self._cluster.start()

    def kill(self) -> None:
        """Crash."""
        assert self._cluster is not None
        os.kill(self._cluster.pid, signal.SIGKILL)
        self._cluster.close()
        self._cluster = None

    def stop(self) -> None:
        """Leave the cluster in order."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def pause(self) -> None:
        assert self._cluster is not None
        os.kill(self._cluster.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._cluster is not None
        os.kill(self._cluster.pid, signal.SIGCONT)
