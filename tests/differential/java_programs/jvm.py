"""A JVM with Apache Kafka's tools and clients in it, kept for many programs: starting one takes longer than most of them run."""

from __future__ import annotations

import base64
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from tests.differential.apache_kafka.broker import classpath

SOURCE = Path(__file__).parent / "Programs.java"
TOOLS = "org.apache.kafka.tools."
WITHIN_S = 90.0
_OWN = ("Transactions", "Many", "Read", "Copy", "Group")


class Jvm:
    """Runs one program after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def run(self, program: str, *arguments: object) -> str:
        """Run one of Kafka's tools, or one of Programs.java, and return what it printed."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        words = [_class_of(program), *map(str, arguments)]
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        line = self._answers.get(timeout=WITHIN_S)
        assert line, f"the JVM ended: {self._process.stderr.read()[-3000:]}"
        return base64.b64decode(line).decode()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Jvm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _class_of(program: str) -> str:
    """Return the name of the class: those of Programs.java and of Kafka's Scala code stand as they are."""
    return program if program in _OWN or program.startswith("kafka.") else TOOLS + program
