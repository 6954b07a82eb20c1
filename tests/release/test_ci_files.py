"""The files that GitHub and GitLab run: they parse, call make, and have no more rights than they need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is in the extra dev")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
VERSIONS = ["3.11", "3.12", "3.13"]


def load(file: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(file.read_text())
    return found


def made(line: str) -> list[str]:
    """Return the targets of make that a line calls."""
    return re.findall(r"\bmake ([a-z-]+)", line)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_whole(file: Path) -> None:
    flow = load(file)
    assert {"name", "permissions", "jobs"} <= flow.keys()
    assert True in flow, "`on` is a boolean of YAML"
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), "only actions of GitHub itself"
            assert set(made(step.get("run", ""))) <= TARGETS
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_github_tests_every_supported_python() -> None:
    job = load(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == VERSIONS
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert job["steps"][0]["with"]["fetch-depth"] == 0


def test_a_release_is_tested_built_and_attested() -> None:
    job = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["dist"]
    runs = [step.get("run", step.get("uses", "")).split("@")[0] for step in job["steps"]]
    order = [runs.index(each) for each in ("make test", "make dist", "actions/attest-build-provenance")]
    assert order == sorted(order)
    assert job["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    from tools import dist

    variables = next(step["env"] for step in job["steps"] if step.get("run") == "make dist")
    text = Path(dist.__file__).read_text()
    assert all(f'"{name}"' in text for name in variables)


def test_gitlab_tests_every_supported_python() -> None:
    flow = load(ROOT / ".gitlab-ci.yml")
    assert flow["test"]["parallel"]["matrix"] == [{"PYTHON": VERSIONS}]
    assert flow["test"]["script"] == ["make test"]
    assert {job["stage"] for job in flow.values() if isinstance(job, dict) and "stage" in job} <= set(flow["stages"])
    assert flow["dist"]["script"] == ["make dist"]
    assert flow["dist"]["artifacts"]["paths"] == ["dist/"]
