"""Where other people's suites come from, and how they are run.

Sources are fetched when they are first needed, from the package index and from Debian's archive, into a folder of the virtual
environment; nothing of them is part of this repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

CACHE = Path(sys.prefix) / "compat"
HERE = Path(__file__).parent

DEBIAN = """\
Types: deb deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def allowed(name: str) -> list[str]:
    """Return the tests that must pass; the list only grows."""
    lines = (HERE / f"{name}.allow").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def run(
    command: Sequence[str | Path], *, folder: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it said."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def run_suite(
    command: Sequence[str | Path], *, failed: int, folder: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of tests. The lists say which of them must pass, so it may end with `failed`, its exit code when some do not."""
    ran = run(command, folder=folder, timeout_s=timeout_s, env=env)
    ended = f"{command[0]} ended with exit code {ran.returncode}:\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    assert ran.returncode in (0, failed), ended
    return ran


def must_run(command: Sequence[str | Path], *, folder: Path, timeout_s: float = 600) -> str:
    """Run a command that has to succeed."""
    ran = run(command, folder=folder, timeout_s=timeout_s)
    assert ran.returncode == 0, f"{command[0]} failed:\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def python_source(name: str, version: str) -> Path:
    """Return the unpacked source package of a Python distribution. Skips the test where it cannot be had."""
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        downloads = CACHE / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
        ran = run([*pip, f"{name}=={version}", "--dest", downloads], folder=CACHE, timeout_s=300)
        if ran.returncode != 0:
            pytest.skip(f"{name} {version} cannot be downloaded: {ran.stderr.strip()[-200:]}")
        (archive,) = downloads.glob(f"{name.replace('-', '[-_]')}-{version}.tar.gz")
        _unpack(archive, folder)
    return folder


def python_packages(folder_name: str, *packages: str) -> Path:
    """Return a folder to put on PYTHONPATH that has these packages."""
    folder = CACHE / folder_name
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
        CACHE.mkdir(parents=True, exist_ok=True)
        ran = run([*pip, *packages], folder=CACHE, timeout_s=300)
        if ran.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"{packages} cannot be installed: {ran.stderr.strip()[-200:]}")
    return folder


def npm_source(package: str, version: str, inner: str) -> Path:
    """Return a folder of a package of npm, such as the C library that it is built from. Skips the test where it cannot be had."""
    folder = CACHE / f"{inner.rpartition('/')[2]}-in-{package.rpartition('/')[2]}-{version}"
    if not folder.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not here")
        downloads = CACHE / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        ran = run([npm, "pack", "--silent", f"{package}@{version}"], folder=downloads, timeout_s=300)
        if ran.returncode != 0:
            pytest.skip(f"{package} {version} cannot be downloaded: {ran.stderr.strip()[-200:]}")
        whole = CACHE / f"{folder.name}.whole"
        _unpack(downloads / ran.stdout.split()[-1], whole)
        (whole / inner).rename(folder)
        shutil.rmtree(whole)
    return folder


def debian_source(package: str, version: str) -> Path:
    """Return the unpacked source of a Debian package. Skips the test where it cannot be had."""
    folder = CACHE / f"{package}-{version}"
    if not folder.exists():
        apt = _apt()
        ran = run([*apt, "source", "--download-only", package], folder=CACHE / "apt", timeout_s=300)
        archives = list((CACHE / "apt").glob(f"{package}_{version}.orig.tar.*"))
        if not archives:
            pytest.skip(f"{package} {version} is not in Debian's archive: {ran.stderr.strip()[-200:]}")
        _unpack(archives[0], folder)
    return folder


def debian_program(name: str, *packages: str) -> tuple[Path, dict[str, str]]:
    """Return a program out of Debian's packages, not installed, and the environment that it runs in."""
    installed = shutil.which(name)
    if installed is not None:
        return Path(installed), {}
    folder = CACHE / f"{name}-program"
    if not folder.exists():
        apt = _apt()
        ran = run([*apt, "download", *packages], folder=CACHE / "apt", timeout_s=300)
        if ran.returncode != 0:
            pytest.skip(f"{name} cannot be downloaded: {ran.stderr.strip()[-200:]}")
        for package in packages:
            for archive in (CACHE / "apt").glob(f"{package}_*.deb"):
                must_run(["dpkg-deb", "--extract", archive, folder], folder=CACHE)
    libraries = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    (program,) = folder.rglob(f"bin/{name}")
    return program, {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def _apt() -> list[str | Path]:
    """Return apt-get with lists and sources of its own, so that the machine's stay as they are."""
    if shutil.which("apt-get") is None:
        pytest.skip("apt-get is not there; these suites are taken from Debian's archive")
    state = CACHE / "apt"
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "parts" / "debian.sources").write_text(DEBIAN)
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": state / "parts",
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "",
    }
    apt: list[str | Path] = [
        "apt-get",
        *(part for name, value in options.items() for part in ("-o", f"{name}={value}")),
    ]
    if not any((state / "lists").glob("*Sources*")):
        ran = run([*apt, "update"], folder=state, timeout_s=300)
        if ran.returncode != 0:
            pytest.skip(f"Debian's archive cannot be reached: {ran.stderr.strip()[-200:]}")
    return apt


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the one folder in an archive under another name, whole or not at all."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(partial, filter="data")
    (inner,) = partial.iterdir()
    inner.rename(folder)
    partial.rmdir()
