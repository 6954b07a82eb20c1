"""The commands of docs/cluster.md for three hosts, as a user types them. The hosts are 127.0.0.2 to 127.0.0.4, each with a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from streamactors.broker.cluster.reserved_ports import free_port
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "cluster.md").read_text()
HOSTS = (1, 2, 3)


def commands() -> list[str]:
    section = PAGE.partition("## How do I start three hosts, in ten commands?\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)\n```", section, re.DOTALL)


def test_the_page_has_ten_commands() -> None:
    assert len(commands()) == 10


class Hosts:
    """Three folders that stand for three hosts. `scp` copies from one to another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients, self._controllers = free_port(), free_port()
        tools = folder / "bin"
        tools.mkdir()
        (tools / "streamactors").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamactors.cli.main "$@"\n')
        (tools / "scp").write_text(
            '#!/bin/sh\nshift\nfor to; do :; done\nfor file; do [ "$file" = "$to" ] || cp -r "$file" "$FOLDER/${to%:}"; done\n'
        )
        for tool in tools.iterdir():
            tool.chmod(0o755)
        for host in HOSTS:
            self.of(host).mkdir()

    def of(self, host: int) -> Path:
        return self._folder / f"127.0.0.{host + 1}"

    def _environment(self, host: int) -> dict[str, str]:
        path = f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "N": str(host), "FOLDER": str(self._folder)}

    def _here(self, command: str) -> str:
        command = command.replace("10.0.0.$N", "127.0.0.$((N + 1))")
        command = re.sub(r"10\.0\.0\.([123])", lambda found: f"127.0.0.{int(found[1]) + 1}", command)
        return command.replace("9092", str(self._clients)).replace("9093", str(self._controllers))

    def run(self, host: int, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", self._here(command)],
            cwd=self.of(host),
            env=self._environment(host),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def background(self, host: int, command: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self._here(command)}"],
            cwd=self.of(host),
            env=self._environment(host),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for bash")
def test_ten_commands_start_a_cluster_of_three_hosts_that_outlives_any_one(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    _, certificates, identity, settings, to_second, to_third, format_, start, client, create = commands()
    for command in (certificates, identity, settings, to_second, to_third):
        hosts.run(1, command)
    with ExitStack() as running:
        brokers = []
        for host in HOSTS:
            hosts.run(host, format_)
            brokers.append(running.enter_context(hosts.background(host, start)))
        for broker in brokers:
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline()
        hosts.run(2, client)
        hosts.run(2, create)
        at = "--bootstrap 10.0.0.2:9092 --config client.properties"
        described = hosts.run(2, f"streamactors topics describe orders --json {at}").splitlines()
        assert [sorted(json.loads(line)["replicas"]) for line in described] == [[1, 2, 3]] * 3
        brokers[0].kill()
        hosts.run(2, f"echo one | streamactors produce orders {at}")
        assert "one" in hosts.run(2, f"streamactors consume orders {at}")
