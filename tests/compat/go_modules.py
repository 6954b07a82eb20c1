"""Go modules out of Go's module proxy: their own test programs, built and run against a broker."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.compat.support import CACHE, must_run, run, run_suite

OUTCOME = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


def go_source(module: str, version: str, patch: Callable[[Path], None] | None = None) -> Path:
    """Return a folder of our own with a module's source, changed by `patch`. Skips the test where it cannot be had."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not here")
    name = re.sub(r"/v\d+$", "", module).rpartition("/")[2]  # a module's path may end with its major version
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        ran = run(
            [go, "mod", "download", "-json", f"{module}@{version}"], folder=CACHE, timeout_s=300, env=environment()
        )
        if ran.returncode != 0:
            pytest.skip(f"{module} {version} cannot be downloaded: {(ran.stdout + ran.stderr).strip()[-200:]}")
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(json.loads(ran.stdout)["Dir"], partial)
        must_run(["chmod", "-R", "u+w", partial], folder=CACHE)
        if patch is not None:
            patch(partial)
        partial.rename(folder)
    return folder


def go_tests(folder: Path, package: str = ".", *, tags: str = "") -> Path:
    """Return a package's test program. Skips the test where what it needs cannot be downloaded."""
    program = folder / package / "streamactors.test"
    if not program.exists():
        for command in (["go", "mod", "tidy"], ["go", "test", "-tags", tags, "-c", "-o", program, package]):
            ran = run(command, folder=folder, timeout_s=900, env=environment())
            if ran.returncode != 0 and ("dial tcp" in ran.stderr or "i/o timeout" in ran.stderr):
                pytest.skip(f"the modules that {folder.name} needs cannot be downloaded: {ran.stderr.strip()[-200:]}")
            assert ran.returncode == 0, ran.stderr[-3000:]
    return program


def outcomes(
    program: Path, folder: Path, *arguments: str, env: Mapping[str, str], timeout_s: int
) -> tuple[dict[str, str], str]:
    """Run a test program in its package's folder; return test -> PASS, FAIL or SKIP, and what it printed."""
    ran = run_suite(
        [program, "-test.v", f"-test.timeout={timeout_s}s", *arguments],
        failed=1,
        folder=folder,
        timeout_s=timeout_s + 30,
        env={**environment(), **env},
    )
    return {name: state for state, name in OUTCOME.findall(ran.stdout)}, ran.stdout + ran.stderr


def environment() -> dict[str, str]:
    """Modules go to the folder that everything foreign goes to."""
    return {"GOMODCACHE": os.fspath(CACHE / "go-modules"), "GOFLAGS": "-modcacherw -mod=mod"}
