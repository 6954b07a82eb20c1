"""Crates as Cargo fetches them: their own test programs, built and run against a broker."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.compat.support import CACHE, must_run, run, run_suite

OUTCOME = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
BUILD = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}  # half the time and a tenth of the space
PROBE = """\
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[lib]
path = "probe.rs"
[dependencies]
{name} = "={version}"
"""


def crate_source(name: str, version: str, patch: Callable[[Path], None] | None = None) -> Path:
    """Return a folder of our own with a crate's source, changed by `patch`. Skips the test where it cannot be had."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("Cargo is not here")
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        probe = CACHE / f"{name}-{version}.probe"
        probe.mkdir(parents=True, exist_ok=True)
        (probe / "Cargo.toml").write_text(PROBE.format(name=name, version=version))
        (probe / "probe.rs").touch()
        ran = run([cargo, "metadata", "--format-version", "1"], folder=probe, timeout_s=300)
        if ran.returncode != 0:
            pytest.skip(f"{name} {version} cannot be downloaded: {ran.stderr.strip()[-200:]}")
        (manifest,) = (each["manifest_path"] for each in json.loads(ran.stdout)["packages"] if each["name"] == name)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(Path(manifest).parent, partial)
        if patch is not None:
            patch(partial)
        partial.rename(folder)
        shutil.rmtree(probe)
    return folder


def crate_tests(folder: Path, *names: str) -> list[Path]:
    """Return a crate's integration-test programs of these names."""
    tests = [part for name in names for part in ("--test", name)]
    ran = run(["cargo", "test", "--no-run", "--message-format=json", *tests], folder=folder, timeout_s=1800, env=BUILD)
    if ran.returncode != 0 and ("failed to download" in ran.stderr or "failed to get" in ran.stderr):
        pytest.skip(f"the crates that {folder.name} needs cannot be downloaded: {ran.stderr.strip()[-200:]}")
    assert ran.returncode == 0, ran.stderr[-3000:]
    built = (json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))
    programs = {each["target"]["name"]: Path(each["executable"]) for each in built if each.get("executable")}
    return [programs[name] for name in names]


def outcomes(program: Path, folder: Path, *, env: Mapping[str, str], timeout_s: int) -> tuple[dict[str, str], str]:
    """Run a test program; return test -> ok, FAILED or ignored, and what it printed."""
    ran = run_suite([program, "--test-threads=4"], failed=101, folder=folder, timeout_s=timeout_s, env=env)
    return dict(OUTCOME.findall(ran.stdout)), ran.stdout + ran.stderr


def newer(folder: Path, crate: str, version: str) -> None:
    """Use another version of a crate than the lock file says."""
    must_run(["cargo", "update", "-p", crate, "--precise", version], folder=folder)
