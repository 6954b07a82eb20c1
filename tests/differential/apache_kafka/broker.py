"""Apache Kafka itself, from its Maven packages: one broker on one folder, and its command-line tools."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin

from streamactors.broker.cluster.reserved_ports import free_port

HERE = Path(__file__).parent
VERSION = "4.4.0"
SHELL = "shell.pom.xml"
"""The metadata shell, in a class path of its own: Maven Central has no kafka-shell 4.4.0, and the one of 4.3.1 needs the other jars of 4.3.1."""
STARTS = 4
STARTS_WITHIN_S = 300
"""A JVM beside other tests may need longer than a minute."""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def found() -> bool:
    """Whether Java and Maven are here."""
    return bool(shutil.which("java") and shutil.which("mvn"))


@functools.cache
def classpath(pom: str = "pom.xml") -> str:
    """Return Kafka's class path; the jars come through the Maven that is configured on the machine."""
    libs = Path(tempfile.gettempdir()) / f"streamactors-apache-kafka-{VERSION}-{os.getuid()}" / pom.partition(".")[0]
    complete = libs / f"complete-{zlib.crc32((HERE / pom).read_bytes()):08x}"
    if not complete.exists():
        subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(HERE / pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={libs}",
            ],
            check=True,
            capture_output=True,
            timeout=600,
        )
        complete.touch()
    return f"{libs}/*"


def tool(main: str, *arguments: str, may_fail: bool = False, pom: str = "pom.xml") -> str:
    """Run one of Kafka's tools and return what it printed, with its errors if it `may_fail`."""
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath(pom), main, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=STARTS_WITHIN_S,
    )
    both = done.stdout + done.stderr
    assert done.returncode == 0 or may_fail, f"{main} {' '.join(arguments)}: {both}"
    return both if may_fail else done.stdout


class EndedEarly(Exception):
    """The process ended before it could be connected to."""


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on just now, all different."""
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(ports))
    return ports


class ApacheKafka:
    """One broker, controller and all, on `folder`, which is formatted if it is not there yet. `second_listener` is the name of another
    listener, which `settings` describe. `features` are levels of the format."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: dict[str, str] | None = None,
        second_listener: str | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._features = features or {}
        self._second_listener = second_listener
        self.door_address = ""
        self.folder = folder
        self.settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> None:
        """Start, and be ready on return. A port that was free a moment ago may be taken: then once more with others."""
        for _ in range(STARTS - 1):
            try:
                self._start()
                return
            except EndedEarly:
                continue
        self._start()

    def _start(self) -> None:
        port, controller_port, door_port = _free_ports(3)
        self.door_address = f"127.0.0.1:{door_port}"
        door = f",{self._second_listener}://{self.door_address}" if self._second_listener else ""
        self.address = f"127.0.0.1:{port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{door}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        config = self.folder.with_name(self.folder.name + ".properties")
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        if not (self.folder / "meta.properties").exists():
            levels = [f"--feature={name}={level}" for name, level in self._features.items()]
            tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), *levels)
        self._process = subprocess.Popen(
            ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), "kafka.Kafka", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await_ready()

    def _await_ready(self) -> None:
        assert self._process is not None
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._process = None
                raise EndedEarly("Apache Kafka ended while it started")
            try:
                if admin.list_topics(timeout=5).brokers:
                    return
            except confluent_kafka.KafkaException:
                pass
        self.kill()  # nobody else knows the process
        raise AssertionError(f"Apache Kafka did not start within {STARTS_WITHIN_S} s")

    def stop(self) -> None:
        """Shut down in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Crash."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None
