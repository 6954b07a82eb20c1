"""`streamactors new`: the project that it makes is whole, and its test is green."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import streamactors as package
from streamactors.broker import Cluster
from streamactors.cli.graphs.graph_module import load_graph
from tests.cli.ran import Run


@pytest.fixture
def project(streamactors: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ran = streamactors("new", "Order-counts")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "Order-counts is made; next: cd Order-counts && pytest",
        "run it: streamactors run order_counts.pipeline:graph --reload",
    ]
    return tmp_path / "Order-counts"


def test_a_project_has_all_files_and_no_placeholder_is_left(project: Path) -> None:
    files = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert files == {
        ".dockerignore",
        ".gitignore",
        "Dockerfile",
        "README.md",
        "order_counts/__init__.py",
        "order_counts/pipeline.py",
        "pyproject.toml",
        "tests/test_pipeline.py",
    }
    assert [name for name in files if "{{" in (project / name).read_text()] == []
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    assert settings["project"]["name"] == "Order-counts"
    assert settings["project"]["dependencies"] == [f"streamactors>={version('streamactors')}"]


def test_the_graph_of_the_project_and_its_test_hold(
    project: Path, broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))
    try:
        load_graph("order_counts.pipeline:graph")
        monkeypatch.syspath_prepend(str(project / "tests"))
        importlib.import_module("test_pipeline").test_the_orders_of_each_customer_are_counted(broker)
    finally:
        for name in ("order_counts", "order_counts.pipeline", "test_pipeline"):
            sys.modules.pop(name, None)


def test_the_image_copies_what_exists_and_runs_the_graph(project: Path) -> None:
    lines = [line.split(" ", 1) for line in (project / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert {name for name, _ in lines} <= {
        "FROM",
        "RUN",
        "WORKDIR",
        "COPY",
        "ENV",
        "USER",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    copied = [rest.split()[0] for name, rest in lines if name == "COPY"]
    assert copied
    assert all((project / each).exists() for each in copied)
    (entry,) = [json.loads(rest) for name, rest in lines if name == "ENTRYPOINT"]
    assert entry == ["streamactors", "run", "order_counts.pipeline:graph"]
    assert ("USER", "10001:10001") in [tuple(line) for line in lines]


@pytest.mark.slow
def test_pytest_of_the_project_is_green_and_its_wheel_has_the_package(project: Path, tmp_path: Path) -> None:
    root = str(Path(package.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project, env=env, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert re.search(r"1 passed", ran.stdout), ran.stdout + ran.stderr
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=110)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert "order_counts/pipeline.py" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("1st", 2, "'1st' is no name of a project; it begins with a letter"),
        ("a b", 2, "is no name of a project"),
        ("class", 2, "a package 'class' exists already; give a name such as my-class"),
        ("json", 2, "give a name such as my-json"),
        ("streamactors", 2, "give a name such as my-streamactors"),
        ("full", 1, "full exists; give another name, or an empty folder"),
        ("file", 1, "file exists; give another name"),
        ("file/below", 1, "cannot write file"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    streamactors: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    ran = streamactors("new", name)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert said in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_an_empty_folder_is_filled(streamactors: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert streamactors("new", str(tmp_path / "mine")).code == 0
    assert (tmp_path / "mine" / "mine" / "pipeline.py").exists()
