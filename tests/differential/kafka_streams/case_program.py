"""One of the Java programs of `src` that run cases: a topology and its rows in, what each row gave out."""

from __future__ import annotations

import subprocess
from typing import IO

from tests.models.topology_case import TopologyCase, TopologyOutcome


class CaseProgram:
    """The Java program, one process for many cases."""

    def __init__(self, name: str, classpath: str, states: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", f"-Dstates={states}", "-cp", classpath, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def run(self, case: TopologyCase) -> TopologyOutcome:
        to_java, from_java = self._pipes
        to_java.write(as_text(case))
        to_java.flush()
        outcome = TopologyOutcome(given=[[] for _ in case.rows])
        for line in from_java:
            name, *fields = line.rstrip("\n").split("\t")
            if name == "END":
                return outcome
            if name == "OUT":
                row, key, value, timestamp, *header = fields
                given = (_nullable(key), _nullable(value), int(timestamp), *map(_nullable, header))
                outcome.given[int(row)].append(given)
            elif name == "DIE":
                outcome.died, outcome.reason = int(fields[0]), fields[1]
                del outcome.given[outcome.died :]
            elif name == "REFUSED":
                outcome.refused = fields[0]
            elif name == "DROPPED":
                outcome.dropped = int(fields[0])
        raise AssertionError("the Java program ended")

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def close(self) -> None:
        self._pipes[0].close()
        self._process.wait(60)


def as_text(case: TopologyCase) -> str:
    lines: list[tuple[object, ...]] = [("CASE",), *[("OP", *op) for op in case.ops]]
    lines += [("ROW", *("\\N" if part is None else part for part in row)) for row in case.rows]
    return "".join("\t".join(map(str, line)) + "\n" for line in [*lines, ("END",)])


def _nullable(text: str) -> str | None:
    return None if text == "\\N" else text
