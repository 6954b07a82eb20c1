"""The marker, the fixture, the options and the command, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamactors.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import pytest

@pytest.fixture
def limit():
    return 5

@pytest.mark.simulate(seeds=20)
def test_breaks(sim, limit):
    store = sim.outside("store")
    sim.always(lambda: sim.seed < limit)
    store.insert(sim.seed)

@pytest.mark.simulate(seeds=3)
def test_holds(sim):
    sim.outside("store").insert(1)

@pytest.mark.simulate(seed=3)
def test_misspelt(sim):
    pass

def test_unmarked(sim):
    pass
"""


def _pytest(folder: Path, *options: str, code: int = 0) -> str:
    (folder / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def test_the_first_failing_seed_is_named_with_how_to_see_it_again(tmp_path: Path) -> None:
    said = _pytest(tmp_path, code=1)
    assert "seed 5 breaks always sim.seed < limit" in said
    assert "pytest 'test_it.py::test_breaks' --sim-seed=5" in said
    assert "3 seeds, " in said
    assert "simulate does not know 'seed'" in said
    assert "needs the marker @pytest.mark.simulate" in said
    assert "1 passed" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [["--sim-seeds=5"], ["--sim-seed=4"], ["--sim-seeds=5", "--sim-jobs=2"], ["-n", "2", "--sim-seeds=5"]]
)
def test_options_choose_the_seeds(tmp_path: Path, options: list[str]) -> None:
    said = _pytest(tmp_path, *options, "-k", "breaks or holds")
    assert "2 passed" in said, said


def test_the_command_tries_the_same_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test_command_simulate.py"
    file.write_text(
        "import pytest\n\n@pytest.mark.simulate(seeds=20)\ndef test_it(sim):\n"
        "    sim.always(lambda: sim.seed < 5)\n    sim.outside('store').insert(1)\n"
    )
    assert run(["simulate", f"{file}:test_it", "--seeds", "4", "--jobs", "1"]) == 0
    assert "4 seeds" in capsys.readouterr().out
    assert run(["simulate", f"{file}:test_it", "--jobs", "1"]) == 1
    assert f"streamactors simulate {file}:test_it --seed 5" in capsys.readouterr().err
    assert run(["simulate", f"{file}:nothing"]) == 2
