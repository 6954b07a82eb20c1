"""Apache Kafka itself, as a peer: its jars through Maven, one broker on loopback.

Nothing here runs where Java or Maven are missing: `available()` says so."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

VERSION = "4.4.0"
LIBS = Path(tempfile.gettempdir()) / f"apache-kafka-{VERSION}-jars"
READY_S = 60.0
STARTS = 4
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""


def available() -> bool:
    """Whether this machine can run it."""
    return bool(shutil.which("java") and shutil.which("mvn"))


def classpath() -> str:
    """Return the classpath, fetching the jars on first use. Raises CalledProcessError if Maven cannot."""
    if not (LIBS / "complete").exists():
        LIBS.mkdir(parents=True, exist_ok=True)
        (LIBS / "pom.xml").write_text(_POM)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={LIBS}"],
            cwd=LIBS,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (LIBS / "complete").touch()
    return str(LIBS / "*")


def run_tool(main_class: str, *arguments: str, timeout_s: float = 120.0) -> str:
    """Run one of Kafka's own tools; return what it printed. Raises CalledProcessError."""
    command = ["java", "-Xmx512m", "-cp", classpath(), main_class, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s).stdout


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on just now, all different."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


class EndedEarly(RuntimeError):
    """The process ended before it could be connected to."""


class ApacheKafka:
    """One broker that is its own controller, for the length of a `with` block."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, heap: str = "1g", tls: bool = False) -> None:
        """With `tls` there is a second listener, SSL, at `tls_servers`; the settings name its certificate."""
        self.tls_servers = ""
        self._tls = tls
        self.port = 0
        self.bootstrap_servers = ""
        self.folder = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.ready_s = 0.0
        self._heap = heap
        self._settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> ApacheKafka:
        """Format the folder and start; return when it can be connected to. A port that was free a moment ago may be
        taken: then once more with others. Raises RuntimeError with what it printed."""
        for _ in range(STARTS - 1):
            try:
                return self._start()
            except EndedEarly:
                shutil.rmtree(self.folder / "data", ignore_errors=True)
        return self._start()

    def _start(self) -> ApacheKafka:
        self.port, controller, tls_port = free_ports(3)
        self.tls_servers = f"127.0.0.1:{tls_port}"
        tls = f",SSL://{self.tls_servers}" if self._tls else ""
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        settings = {
            **self._settings,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}{tls}",
        }
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster_id = (
            "B" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        )  # no "-" at its beginning
        run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))
        begin = time.monotonic()
        output = (self.folder / "output").open("wb")
        self._process = subprocess.Popen(
            ["java", f"-Xmx{self._heap}", "-cp", classpath(), "kafka.Kafka", str(properties)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            start_new_session=True,
        )
        while not self._answers():
            ended = self._process.poll() is not None
            if ended or time.monotonic() - begin > READY_S:
                kind = EndedEarly if ended else RuntimeError
                raise kind(f"Apache Kafka did not start:\n{(self.folder / 'output').read_text()[-3000:]}")
            time.sleep(0.05)
        self.ready_s = time.monotonic() - begin
        return self

    def _answers(self) -> bool:
        """Whether it answers an ApiVersions request and has itself in its metadata."""
        from confluent_kafka.admin import AdminClient

        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
        except OSError:
            return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.bootstrap_servers}).list_topics(timeout=5).brokers)
        except Exception:
            return False

    def close(self) -> None:
        """Kill it and remove its data."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ApacheKafka:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
