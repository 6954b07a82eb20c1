"""A standalone cluster of Spark on this machine: one master and some workers, each a JVM of its own, all on loopback.

Owner: the demo's process, which starts and ends the JVMs. A worker that is killed takes its executor with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.demo.data import DemoError
from streamactors.spark.session.java import java_home
from streamactors.spark.session.session import pyspark_folder

HOST: Final = "127.0.0.1"
UP_SECONDS: Final = 90.0
DOWN_SECONDS: Final = 20.0


class Standalone:
    """Start a master, and a worker with one core for each of `hosts`; `url` is what spark_session takes as master."""

    def __init__(self, folder: Path, hosts: Sequence[str] = (HOST, HOST), memory: str = "700m") -> None:
        self._folder = folder
        self._memory = memory
        self._hosts = hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Standalone:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            port = free_port()
            self.url = f"spark://{HOST}:{port}"
            self._start("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
            _wait_for_port(port, self._log("master.Master"))
            for n, host in enumerate(self._hosts):
                place = ("--host", host, "--webui-port", "0", "--work-dir", str(self._folder / f"worker-{n}"))
                self._start("worker.Worker", self.url, *place, "--cores", "1", "--memory", self._memory)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def kill_worker(self) -> int:
        """Kill the last worker with -9; return its process id."""
        worker = self._processes.pop()
        worker.kill()
        worker.wait()
        return worker.pid

    def _log(self, kind: str) -> Path:
        return self._folder / f"{kind.partition('.')[0]}.log"

    def _start(self, kind: str, *arguments: str) -> None:
        home = java_home()
        java = "java" if home is None else str(home / "bin" / "java")
        spark = pyspark_folder()
        flags = ("-Xmx256m", "-XX:+UseSerialGC", "-cp", str(spark / "jars" / "*"))
        command = [java, *flags, f"org.apache.spark.deploy.{kind}", *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark),
            "SPARK_SCALA_VERSION": _scala_version(spark),  # a worker looks for it in a source tree otherwise
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }
        if home is not None:
            environment["JAVA_HOME"] = str(home)
        with self._log(kind).open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            )

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(DOWN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()


def _scala_version(spark: Path) -> str:
    """Return the version of Scala in the name of Spark's jar, spark-core_2.13-4.3.0.jar."""
    (jar,) = (spark / "jars").glob("spark-core_*.jar")
    return jar.name.removeprefix("spark-core_").partition("-")[0]


def _wait_for_port(port: int, log: Path) -> None:
    until = time.monotonic() + UP_SECONDS
    while time.monotonic() < until:
        try:
            socket.create_connection((HOST, port), 1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise DemoError(f"Spark's master does not answer at {HOST}:{port} after {UP_SECONDS:.0f} s; see {log}")
