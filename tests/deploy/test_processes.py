"""The processes of the images, without Docker: the same command lines, on a root file system that cannot be written, as a user without rights."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.kafka import ProducerSettings
from streamactors.kafka.client.admin import Admin
from tests.actors.eventually import eventually
from tests.deploy.files import DEPLOY, ROOT, Started, started

SEALED = """set -e
mount --make-rprivate /
mount --bind "$1" /mnt
mount --bind "$2" /srv
mount -o remount,bind,ro /
shift 2
cd /
exec setpriv --reuid=10001 --regid=10001 --clear-groups --bounding-set=-all --no-new-privs "$@"
"""
"""Arguments: the folder that becomes /mnt, the only one that can be written; the one that becomes /srv; the command."""
BY_NAME = {process.where: process for process in started()}


def can_seal() -> bool:
    """Return whether this machine lets us make a root file system that cannot be written, for one process."""
    if os.geteuid() or sys.platform != "linux" or not all(map(shutil.which, ("unshare", "setpriv"))):
        return False
    probe = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        SEALED,
        "sh",
        "/var",
        "/var",
        sys.executable,
        "-c",
        "import streamactors",
    ]
    return subprocess.run(probe, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 0


class Process:
    """A process of an image; `arguments` are those of the file, with addresses of this machine."""

    def __init__(self, process: Started, state: Path, code: Path, replaced: dict[str, str], sealed: bool) -> None:
        arguments, environment = list(process.arguments), dict(process.environment)
        state.mkdir(exist_ok=True)
        data = "/mnt" if sealed else str(state)
        for old, new in {**replaced, "/var/lib/streamactors": data}.items():
            arguments = [each.replace(old, new) for each in arguments]
            environment = {name: value.replace(old, new) for name, value in environment.items()}
        self.log = state.with_suffix(".log")
        command = [sys.executable, "-m", "streamactors", *arguments]
        if sealed:
            os.chown(state, 10001, 10001)
            command = ["unshare", "--mount", "sh", "-c", SEALED, "sh", str(state), str(code), *command]
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self._process = subprocess.Popen(
            command, env=variables, cwd=code, stderr=self.log.open("ab"), stdout=subprocess.DEVNULL
        )

    def lines(self) -> str:
        return self.log.read_text()

    def end(self) -> int:
        """Send SIGTERM and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def answer(port: str, page: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class World:
    """Broker and pipeline of compose.yaml on this machine."""

    def __init__(self, folder: Path, sealed: bool) -> None:
        self.sealed, self._folder = sealed, folder
        kafka, services, self.broker_metrics, self.pipeline_metrics = (str(free_port()) for _ in range(4))
        self.bootstrap = f"127.0.0.1:{services}"
        code = folder / "code"
        code.mkdir(parents=True)
        shutil.copy(DEPLOY / "pipeline" / "orders.py", code)
        shutil.copy(DEPLOY / "compose" / "metrics-token", code)
        here = "/srv" if sealed else str(code)
        self._replaced = {
            "0.0.0.0:9092": f"127.0.0.1:{kafka}",
            "localhost:9092": f"127.0.0.1:{kafka}",
            "0.0.0.0:29092": self.bootstrap,
            "broker:29092": self.bootstrap,
            "/run/secrets/metrics-token": f"{here}/metrics-token",
            "orders.py:graph": f"{here}/orders.py:graph",
        }
        self._code, self._started = code, list[Process]()

    def start(self, name: str, metrics: str) -> Process:
        replaced = {**self._replaced, "0.0.0.0:9100": f"127.0.0.1:{metrics}"}
        process = Process(BY_NAME[f"compose/{name}"], self._folder / name, self._code, replaced, self.sealed)
        self._started.append(process)
        return process

    def run(self, name: str) -> None:
        """Run a service that ends by itself."""
        arguments = [sys.executable, "-m", "streamactors", *BY_NAME[f"compose/{name}"].arguments]
        variables = {**os.environ, "STREAMACTORS_BOOTSTRAP": self.bootstrap, "PYTHONPATH": str(ROOT)}
        for _ in range(2):  # as often as a container is started again
            done = subprocess.run(arguments, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def counts(self) -> dict[str, int]:
        """Return the newest count of each customer."""
        arguments = ["consume", "orders-per-customer", "--json", "-X", "isolation.level=read_committed"]
        done = subprocess.run(
            [sys.executable, "-m", "streamactors", *arguments, "--bootstrap", self.bootstrap],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        found: dict[str, int] = {}
        for line in done.stdout.splitlines():
            record = json.loads(line)
            found[record["key"]] = max(found.get(record["key"], 0), int(record["value"]))
        return found

    def close(self) -> None:
        for process in reversed(self._started):
            process.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path / "world", can_seal())
    yield found
    found.close()


def write_orders(bootstrap: str, *customers: str) -> None:
    from streamactors import Source
    from streamactors.kafka import Producer, ProducerRecord

    records = [ProducerRecord("orders", "an order", customer) for customer in customers]
    Source.from_iterable(records).run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(60)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_broker_and_pipeline_run_end_in_order_and_continue(world: World) -> None:
    broker = world.start("broker", world.broker_metrics)
    eventually(lambda: answer(world.broker_metrics, "/ready") == 200, 60)
    for name in ("topics", "results"):
        world.run(name)
    assert {topic.name for topic in Admin(ProducerSettings(world.bootstrap)).topics()} >= {
        "orders",
        "orders-per-customer",
    }
    write_orders(world.bootstrap, "ada", "bob", "ada")

    pipeline = world.start("pipeline", world.pipeline_metrics)
    eventually(lambda: answer(world.pipeline_metrics, "/ready") == 200, 60)
    assert answer(world.pipeline_metrics, "/live") == 200
    assert answer(world.pipeline_metrics, "/metrics") == 401, "only the probes are open"
    eventually(lambda: world.counts() == {"ada": 2, "bob": 1}, 60)
    assert pipeline.end() == 0, pipeline.lines()
    assert "is drained; committed orders-" in pipeline.lines()

    write_orders(world.bootstrap, "ada", "cy")
    again = world.start("pipeline", world.pipeline_metrics)
    eventually(lambda: world.counts() == {"ada": 3, "bob": 1, "cy": 1}, 60)
    assert again.end() == 0, again.lines()
    assert broker.end() == 0, broker.lines()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_root_file_system_was_read_only(tmp_path: Path) -> None:
    if not can_seal():
        pytest.skip(
            "this machine does not let a process make its root file system read-only: root and unshare are needed"
        )
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 10001, 10001)
    program = "import os, pathlib; pathlib.Path('/mnt/ok').touch(); print(os.getuid())\nfor f in ('/tmp', '/var/tmp', '/srv', '.'):\n try: pathlib.Path(f, 'x').touch(); print(f)\n except OSError: pass"
    command = ["unshare", "--mount", "sh", "-c", SEALED, "sh", str(state), str(tmp_path), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["10001"], done.stdout + done.stderr
