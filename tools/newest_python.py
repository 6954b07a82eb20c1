"""Run the fast tests on the newest Python of this machine, in an environment of its own (.venv-newest).

Without a newer Python than the running one, prints that and exits with 0."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-newest"
PYTHON = VENV / "bin" / "python"
FAST = "not slow and not compat and not differential"


def candidates() -> list[str]:
    """Return the interpreters python3.12 … python3.19 that are on the PATH and start, newest first."""
    found = []
    for minor in range(19, sys.version_info.minor, -1):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            found.append(path)
    return found


def version_of(python: str) -> str:
    """Return the version that an interpreter prints; empty if there is no such interpreter."""
    if shutil.which(python) is None:
        return ""
    return subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Return the exit code of the tests."""
    for python in candidates():
        version = version_of(python)
        if version_of(str(PYTHON)) != version:
            subprocess.run([python, "-m", "venv", "--clear", str(VENV)], check=True)
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        if subprocess.run([*pip, "-e", f"{ROOT}[dev,demo]"]).returncode:
            print(f"{version}: a dependency has no build for it yet; trying an older one")
            shutil.rmtree(VENV)
            continue
        print(f"fast tests on {version}")
        tests = [str(PYTHON), "-m", "pytest", "-m", FAST, "-n", "2", "--dist", "loadfile"]
        return subprocess.run(tests, cwd=ROOT).returncode
    print(f"no Python newer than {sys.version.split()[0]} here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
