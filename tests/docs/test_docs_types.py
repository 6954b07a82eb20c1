"""What users read passes type checkers as it stands: no cast, no ignored error, and the types are known where it matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, as_module, blocks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
RECIPES = sorted(path for path in (ROOT / "examples").glob("*/*.py") if path.stem != "managed_kafka")
"""The programs of the cookbook; one imports a package of a cloud, which nobody else needs."""
ANNOTATED = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
"""The pages whose functions have types, as mypy --strict wants it."""

KNOWN = """
from typing import Any, assert_type

from streamactors import Broadcast, Flow, GraphDSL, Merge, Sink, Source, StreamFuture
from streamactors.engine.stage import NotUsed
from streamactors.kafka import Consumer, ConsumerSettings, Control, Subscriptions


def text(n: int) -> str:
    return str(n)


numbers, words = Source.range(0, 3), Source.from_iterable(["a"])
assert_type(Flow.map(text), Flow[int, str, NotUsed])
assert_type(Flow.map(text).map(len), Flow[int, int, NotUsed])
assert_type(Flow.of(int).filter(lambda n: n > 1), Flow[int, int, NotUsed])
times_ten = Flow.map(lambda x: x * 10)
assert_type(times_ten, Flow[Any, Any, NotUsed])
assert_type(numbers.via(Flow.map(lambda n: n * 10)), Source[int, NotUsed])
assert_type(numbers >> Flow.map(text), Source[str, NotUsed])
assert_type(numbers.run_with(Sink.to_list()), StreamFuture[list[int]])
assert_type(numbers.zip(words), Source[tuple[int, str], NotUsed])
assert_type(numbers.zip(words, numbers), Source[tuple[int, str, int], NotUsed])
assert_type(numbers.concat(words), Source[int | str, NotUsed])
assert_type(numbers.also_to(Sink.ignore()), Source[int, NotUsed])
asked = Source.queue(8)
of_texts: Source[str, Any] = Source.queue(8)
records = Consumer.source(ConsumerSettings("localhost:9092"), Subscriptions.topics("t"))
assert_type(records.map(lambda record: record.key), Source[bytes | None, Control])
values = records.map(lambda record: record.value.decode())
with GraphDSL() as g:
    merge = g.add(Merge[int](2))
    g.add(numbers) >> Flow.map(lambda n: n + 1) >> merge.in_(0)
    numbers >> merge.in_(1)
    fan = merge >> Broadcast(2)
    fan.out(0) >> Flow.map(lambda x: x * 10) >> Sink.ignore()
    fan.out(1) >> Sink.foreach(lambda x: print(x + 1))
"""
WRONG = """
from streamactors import Flow, GraphDSL, Sink, Source
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions


def length(text: str) -> int:
    return len(text)


with GraphDSL() as g:
    g.add(Source.range(0, 3)) >> Flow.map(length)  # wrong: numbers into a function of texts
    g.add(Source.range(0, 3)) >> Sink.foreach(length)  # wrong
Source.range(0, 3) >> Sink.foreach(length)  # wrong
Source.range(0, 3).via(Flow.map(length))  # wrong
Source.range(0, 3).also_to(Sink.foreach(length))  # wrong
Source.range(0, 3).zip([1])  # wrong: no source
records = Consumer.source(ConsumerSettings("localhost:9092"), Subscriptions.topics("t"))
records.map(lambda record: record.value + 1)  # wrong: bytes
records.map(lambda record: record.key.decode())  # wrong: there may be no key
"""


def module_name(page: Path) -> str:
    return f"page_{page.stem.replace('-', '_')}.py"  # not logging.py, which the checkers themselves would import


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each page and example as a module, and what is said above of types."""
    folder = tmp_path_factory.mktemp("pages")
    for page in PAGES:
        if blocks(page):
            (folder / module_name(page)).write_text(as_module(page))
    for example in EXAMPLES:
        (folder / example.name).write_text(example.read_text())
    for recipe in RECIPES:
        (folder / f"recipe_{recipe.name}").write_text(recipe.read_text())
    (folder / "known.py").write_text(KNOWN)
    (folder / "wrong.py").write_text(WRONG)
    return folder


def lines_that_are_wrong() -> set[int]:
    return {number for number, line in enumerate(WRONG.splitlines(), 1) if "# wrong" in line}


@pytest.mark.timeout(600)
def test_pages_and_examples_pass_pyright(modules: Path) -> None:
    pytest.importorskip("basedpyright", reason="pyright is in the extra dev")
    settings = {
        "include": ["."],
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
        "reportMissingModuleSource": False,  # the operators' stubs stand beside their modules
    }
    (modules / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=modules, capture_output=True, text=True)
    assert done.returncode == 1  # `wrong` has errors
    errors: dict[str, dict[int, str]] = {}
    for found in json.loads(done.stdout)["generalDiagnostics"]:
        if found["severity"] == "error":
            errors.setdefault(Path(found["file"]).stem, {})[found["range"]["start"]["line"] + 1] = found["message"]
    assert set(errors.pop("wrong", {})) == lines_that_are_wrong()
    assert errors == {}, errors


@pytest.mark.timeout(600)
def test_the_readme_the_tutorial_and_the_examples_pass_mypy_strict(modules: Path) -> None:
    names = [
        *(module_name(page) for page in ANNOTATED),
        *(example.name for example in EXAMPLES),
        *(f"recipe_{recipe.name}" for recipe in RECIPES),
        "known.py",
        "wrong.py",
    ]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--strict"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), "--no-error-summary", "--hide-error-context"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run([*command, *names], cwd=modules, capture_output=True, text=True, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr  # `wrong` has errors
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    wrong = {int(line.split(":")[1]) for line in errors if line.startswith("wrong.py")}
    assert wrong == lines_that_are_wrong(), done.stdout + done.stderr
    assert [line for line in errors if not line.startswith("wrong.py")] == []
    assert not done.stderr
