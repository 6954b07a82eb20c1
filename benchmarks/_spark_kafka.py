"""Spark's own Kafka source, as a peer: PySpark in a venv of its own, the connector's jars through Maven, one process that runs queries.

PySpark 4.0.0 is the newest version whose connector Maven Central has with all it depends on. Both lie in a cache folder outside the tree and
are made at the first use. Nothing here runs where Java or Maven are missing: `available()` says so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = "4.0.0"
HOME = Path(tempfile.gettempdir()) / f"streamactors-spark-{VERSION}"
PROGRAM = Path(__file__).with_name("_spark_kafka_peer.py")
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>spark-kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>
"""


def available() -> bool:
    """Whether this machine can run it."""
    return bool(shutil.which("java") and shutil.which("mvn"))


def python_of_its_own() -> str:
    """Return the venv's Python, made at first use. Raises CalledProcessError if pip or Maven cannot."""
    python = HOME / "venv" / "bin" / "python"
    if not (HOME / "complete").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        (HOME / "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        _quietly([*command, f"-DoutputDirectory={HOME / 'jars'}"])
        _quietly([sys.executable, "-m", "venv", str(HOME / "venv")])
        _quietly([str(python), "-m", "pip", "install", "-q", f"pyspark=={VERSION}"])
        (HOME / "complete").touch()
    return str(python)


def _quietly(command: list[str]) -> None:
    subprocess.run(command, cwd=HOME, check=True, stdout=subprocess.DEVNULL)


class SparkKafka:
    """A process with a Spark session that reads one topic, for the length of a `with` block."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        python = python_of_its_own()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        jars = ",".join(str(jar) for jar in sorted((HOME / "jars").glob("*.jar")))
        self._process = subprocess.Popen(
            [python, str(PROGRAM), bootstrap_servers, topic, jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, kind: str, batch: int, folder: Path) -> list[tuple[float, int]]:
        """Read the topic into a count or into Parquet, by batches of so many rows; return when each ended (seconds) and its rows."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        shutil.rmtree(folder, ignore_errors=True)
        self._process.stdin.write(json.dumps([kind, batch, str(folder)]) + "\n")
        self._process.stdin.flush()
        answer: list[Any] = json.loads(self._process.stdout.readline() or "[]")
        if not answer:
            self._said.seek(0)
            raise RuntimeError(f"Spark's own Kafka source has failed:\n{self._said.read()[-3_000:].decode()}")
        return [(at, rows) for at, rows in answer]

    def __enter__(self) -> SparkKafka:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # it stops its session and ends
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._said.close()
