"""The commands of docs/security.md, one after the other, as a user types them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from streamactors.broker.cluster.reserved_ports import free_port
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_ten_commands_lead_from_nothing_to_rights(tmp_path: Path) -> None:
    port = free_port()
    broker, admin = fenced("properties")[:2]
    (tmp_path / "broker.properties").write_text(broker)
    (tmp_path / "admin.properties").write_text(admin)
    (tmp_path / "ann.properties").write_text(admin.replace("admin", "ann"))
    commands = [line.replace("9092", str(port)) for block in fenced("sh") for line in block.splitlines()]
    assert len(commands) == 10
    shell = f'streamactors() {{ "{sys.executable}" -m streamactors.cli.main "$@"; }}\n'
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "STREAMACTORS_BOOTSTRAP": f"localhost:{port}"}

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", shell + command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    run(commands[0])
    server = subprocess.Popen(
        ["bash", "-c", shell.replace('"$@"', '"$@" & echo $! > pid; wait') + commands[1]],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert f"SASL_SSL://localhost:{port}" in server.stdout.readline()
        printed = [run(command) for command in commands[2:]]
        assert printed[5] == "1 record produced to orders\n"
        assert "hello" in printed[6]
        assert printed[7].count("User:ann") == 3
    finally:
        subprocess.run(["kill", (tmp_path / "pid").read_text().strip()], check=False)
        server.wait(30)
        assert server.stdout is not None
        server.stdout.close()
