"""How streamactors comes to executors whose Python does not have it: as a zip by addPyFile, within an environment by spark.archives, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

import streamactors
from tests.spark.executors._plain import write_rows
from tests.spark.executors.test_in_spark import new_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("_shipped_query.py")
PACKAGES = Path(pyspark.__file__).parent.parent
PACKAGE = Path(streamactors.__file__).parent
LEFT_OUT = shutil.ignore_patterns("__pycache__")


def environment(folder: Path, *, with_package: bool) -> Path:
    """Make an environment that has what streamactors needs; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "more.pth").write_text(
        f"{PACKAGES}\n"
    )  # a .pth file there, as that of an editable install, is not read
    if with_package:
        shutil.copytree(PACKAGE, packages / "streamactors", ignore=LEFT_OUT)
    return folder / "bin" / "python"


def run(cluster: Any, folder: Path, topic: str, python: str, way: str) -> tuple[str | None, list[list[str]]]:
    """Run the query in a process of its own, as a user who has set PYSPARK_PYTHON; return its error and rows."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), cluster.bootstrap_servers, topic, way],
        cwd=folder,
        env={**ours, "PYSPARK_PYTHON": python},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    error, rows = json.loads(done.stdout.splitlines()[-1])
    return error, rows


@pytest.fixture
def topic(cluster: Any) -> str:
    name = new_topic()
    write_rows(cluster, name, [(i % 2, "k", i, i) for i in range(20)])
    return name


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python that has what streamactors needs, and not streamactors."""
    python = str(environment(tmp_path / "bare", with_package=False))
    looking = [python, "-c", "import streamactors"]
    if not subprocess.run(looking, cwd=tmp_path, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"streamactors is installed in {PACKAGES}, beside what it needs; install it with pip install -e")
    return python


def test_its_absence_is_a_sentence(cluster: Any, tmp_path: Path, topic: str, bare: str) -> None:
    error, rows = run(cluster, tmp_path, topic, bare, "not")
    assert error is not None
    assert "has no streamactors" in error
    assert "ship an environment with spark.archives, or spark.sparkContext.addPyFile" in error
    assert not rows


def test_it_comes_as_a_zip(cluster: Any, tmp_path: Path, topic: str, bare: str) -> None:
    """Spark's process that plans the query runs that Python, too, and does not get the zip from Spark."""
    copied = tmp_path / "copied"
    shutil.copytree(PACKAGE, copied / "streamactors", ignore=LEFT_OUT)
    shutil.make_archive(str(tmp_path / "package"), "zip", copied)
    error, rows = run(cluster, tmp_path, topic, bare, "zip")
    assert error is None
    assert len(rows) == 20
    assert all("package.zip/streamactors/" in file for _, file in rows)


def test_it_comes_within_an_environment(cluster: Any, tmp_path: Path, topic: str) -> None:
    """The driver's host has the environment, too, because the query is planned there."""
    environment(tmp_path / "env", with_package=True)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "env", ".")
    error, rows = run(cluster, tmp_path, topic, "./env/bin/python", "archive")
    assert error is None
    assert len(rows) == 20
    places = {file.partition("/env/")[0] for _, file in rows}
    assert places
    assert str(tmp_path) not in places  # the executor's own folder
