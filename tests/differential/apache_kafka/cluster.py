"""Nodes of Apache Kafka for clusters that are mixed with ours: controllers and brokers, one process each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin

from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports, classpath, tool

READY_WITHIN_S = 90.0


class ApacheNode:
    """One process of Apache Kafka. `addresses` are the controllers of its cluster, as host:port."""

    def __init__(
        self,
        folder: Path,
        node_id: int,
        role: str,
        *,
        voters: str,
        port: int | None = None,
        settings: dict[str, str] | None = None,
        features_off: tuple[str, ...] = (),
        release: str | None = None,
        controller_port: int | None = None,
        format_options: tuple[str, ...] = (),
    ) -> None:
        """`controller_port` is for a node of both roles, broker and controller; `port` is then that of clients. `release` is the
        release whose levels the folder is formatted with, None for Apache Kafka's default."""
        self.folder = folder
        self.node_id = node_id
        self.role = role
        self.port = port or _free_ports(1)[0]
        self.address = f"127.0.0.1:{self.port}"
        self.cluster_id = CLUSTER_ID
        self._features_off = features_off
        self._release = release
        self._format_options = format_options
        self._process: subprocess.Popen[bytes] | None = None
        listeners = f"{'CONTROLLER' if role == 'controller' else 'PLAINTEXT'}://{self.address}"
        if controller_port is not None:
            listeners += f",CONTROLLER://127.0.0.1:{controller_port}"
        self._properties = {
            "process.roles": role,
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }

    @property
    def log(self) -> Path:
        return self.folder.with_name(self.folder.name + ".out")

    def start(self) -> None:
        """Start the process; it is ready some seconds later."""
        config = self.folder.with_name(self.folder.name + ".properties")
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        if not (self.folder / "meta.properties").exists():
            release = [] if self._release is None else ["--release-version", self._release]
            off = [word for each in self._features_off for word in ("--feature", each)]
            tool(
                "kafka.tools.StorageTool",
                "format",
                "-t",
                self.cluster_id,
                "-c",
                str(config),
                *release,
                *off,
                *self._format_options,
            )
        jvm = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath()]
        log4j = self._log4j()
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*jvm, *log4j, "kafka.Kafka", str(config)], stdout=out, stderr=subprocess.STDOUT
            )

    def _log4j(self) -> list[str]:
        file = self.folder.with_name("log4j2.properties")
        file.write_text(
            "appender.out.type=Console\nappender.out.name=OUT\nappender.out.layout.type=PatternLayout\n"
            "appender.out.layout.pattern=%d %p %c{1} %m%n\nrootLogger.level=INFO\nrootLogger.appenderRef.out.ref=OUT\n"
        )
        return [f"-Dlog4j2.configurationFile={file}"]

    def await_broker(self) -> None:
        """Wait until a broker answers metadata requests with itself in it."""
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            try:
                if self.node_id in admin.list_topics(timeout=1).brokers:
                    return
            except confluent_kafka.KafkaException:
                pass
        raise AssertionError(f"broker {self.node_id} did not start: {self.log.read_text()[-3000:]}")

    def pause(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Shut down in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Crash."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(90)
            self._process = None
