"""`streamactors docs`: the pages, also where only the wheel is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamactors.cli.main import run

ROOT = Path(__file__).parents[2]


def test_it_lists_the_pages_and_prints_one(capsys):
    assert run(["docs"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"broker", "broker-reference", "kafka", "production", "windows"} <= listed
    assert run(["docs", "production"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "production.md").read_text()
    assert run(["docs", "docs/kafka.md"]) == 0


@pytest.mark.parametrize(
    ("page", "advice"), [("brokr", "did you mean broker?"), ("zzzz", "streamactors docs lists them")]
)
def test_a_page_that_is_not_there_is_told(capsys, page, advice):
    assert run(["docs", page]) == 2
    assert advice in capsys.readouterr().err


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling, which builds the wheel")
def test_the_wheel_has_the_pages(tmp_path):
    build = "import hatchling.build as b, sys; print(b.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"streamactors/docs/broker-reference.md", "streamactors/docs/operators/index.md"} <= set(names)
    assert "streamactors/cli/main.py" in names
    assert not [name for name in names if name.startswith(("docs/", "tests/"))]
