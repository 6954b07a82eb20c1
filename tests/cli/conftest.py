"""A broker for each file, and `streamactors` as a call.

On a busy machine the first answer of a broker may take longer than a person at a terminal would like to wait."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.cli import bootstrap as client
from streamactors.cli.main import run
from tests.cli.ran import Ran, Run


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 30_000)


@pytest.fixture(autouse=True)
def without_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The profiles of whoever runs the tests do not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-profiles"))
    monkeypatch.delenv("STREAMACTORS_PROFILE", raising=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def streamactors(broker: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("STREAMACTORS_BOOTSTRAP", broker.bootstrap_servers)

    def run_command(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
        code = run(arguments)
        return Ran(code, *capsys.readouterr())

    return run_command


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Write a module into the working folder; return the name it was given."""
    monkeypatch.chdir(tmp_path)
    names: list[str] = []

    def write(text: str) -> str:
        name = f"streams_of_a_test_{os.getpid()}_{len(names)}_{abs(hash(str(tmp_path)))}"
        (tmp_path / f"{name}.py").write_text("from streamactors import *\nimport sys\n" + text)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)
