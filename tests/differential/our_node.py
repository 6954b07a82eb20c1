"""Our nodes beside those of Apache Kafka: processes that can be killed, paused and started again."""

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
        self._listen = [self.address]
        self._settings = {
            "node.id": node_id,
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": controllers,
            # As the nodes of Apache Kafka: the broker that a client asks first makes the internal topics, and three replicas
            # are refused in a cluster of two brokers.
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "offsets.topic.replication.factor": 1,
            **(settings or {}),
        }
        self._cluster: Cluster | None = None

    def start(self) -> None:
        """Start the process; it is unfenced on return."""
        self._cluster = Cluster(process=True, data=self.folder, listen=self._listen, config=self._settings)
        self._cluster.start()

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that the running node belongs to."""
        assert self._cluster is not None
        return self._cluster.cluster_id

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
        self._cluster._running.pause()

    def resume(self) -> None:
        assert self._cluster is not None
        self._cluster._running.resume()


class OurController(OurNode):
    """The controller of the cluster, on a port of its own; the process is a broker too."""

    def __init__(self, folder: Path, node_id: int, port: int, settings: dict[str, str]) -> None:
        roles = {"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
        super().__init__(folder, node_id, f"127.0.0.1:{port}", {**settings, **roles})
        del self._settings["controller.quorum.bootstrap.servers"]
        self._listen.append(f"CONTROLLER://127.0.0.1:{port}")
        self.controller_address = f"127.0.0.1:{port}"
