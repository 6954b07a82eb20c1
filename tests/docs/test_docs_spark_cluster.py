"""The commands of docs/spark-cluster.md, one after the other, as a user types them: two minutes, so `make test-all` runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from streamactors.broker.cluster.reserved_ports import free_port
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "spark-cluster.md").read_text()
PATIENCE_S = 300.0


def commands() -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def program() -> str:
    return next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "sys.argv" in code)


def test_the_page_has_eight_commands() -> None:
    assert len(commands()) == 8


class Shell:
    """Run the commands of a user: `python` and `streamactors` are those of the tests, and the ports are free ones."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self._folder = folder
        self._ports = ports
        tools = folder / "bin"
        tools.mkdir()
        for name, module in (("python", ""), ("streamactors", "-m streamactors.cli.main")):
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (tools / name).chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def export(self, command: str) -> None:
        names = re.findall(r"(\w+)=", command)
        shown = self.run("; ".join([command, *(f'echo "${name}"' for name in names)]))
        self._environment |= dict(zip(names, shown.splitlines(), strict=True))

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", self._here(command)],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def background(self, command: str) -> Iterator[None]:
        """Run a command that ends in `&`; end what it has started with the block."""
        with (self._folder / "background.log").open("ab") as log:
            shell = subprocess.Popen(
                ["bash", "-c", f"{self._here(command)}\nwait"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(60)

    def _here(self, command: str) -> str:
        for port, free in self._ports.items():
            command = command.replace(port, str(free))
        return command


def wait_for(port: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            assert time.monotonic() < until, f"nobody listens on {port}"
            time.sleep(0.1)
        else:
            return


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for name in names:
        ports[name] = free_port(ports.values())
    return ports


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_commands_lead_from_the_laptop_to_a_cluster_that_writes_the_same_hours(tmp_path: Path) -> None:
    ports = free_ports(("9092", "7077"))
    shell = Shell(tmp_path, ports)
    (tmp_path / "hours.py").write_text(program().replace("9092", str(ports["9092"])))
    broker, produce, here, export, master, workers, there, consume = commands()
    with ExitStack() as running:
        running.enter_context(shell.background(broker))
        wait_for(ports["9092"])
        assert "2000 records" in shell.run(produce)
        shell.run(here)
        shell.export(export)
        running.enter_context(shell.background(master))
        wait_for(ports["7077"])
        running.enter_context(shell.background(workers))
        shell.run(there)
        one, other = (
            by_partition(shell.run(f"{consume.replace('hours-there', topic)} --json"))
            for topic in ("hours-here", "hours-there")
        )
    assert sum(map(len, one.values())) == 7 * 34
    assert one == other


def by_partition(lines: str) -> dict[int, list[tuple[str, str]]]:
    """Return the keys and values of each partition in their order."""
    found = defaultdict(list)
    for record in sorted(map(json.loads, lines.splitlines()), key=lambda record: record["offset"]):
        found[record["partition"]].append((record["key"], record["value"]))
    return dict(found)
